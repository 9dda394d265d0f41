package pickle

import "fmt"

// empty is an opcode that pushes a new empty container.
func empty(k kind, cost int) func(*scanner) error {
	return func(s *scanner) error {
		s.pass()
		s.push(symbol{kind: k, depth: 1}, cost)
		return nil
	}
}

// scanEmptySet rewrites EMPTY_SET as a call: the interpreter's own set forgets
// the order of its items and fails on those that Go cannot hash.
func scanEmptySet(s *scanner) error {
	s.global(setClass)
	s.emit(opEmptyTuple, opReduce)
	s.stack[len(s.stack)-1] = symbol{kind: kindSet, depth: 1}
	s.cost += costCall
	return nil
}

// scanTuple makes a tuple of the last n values, or of those after the mark if n is -1.
func scanTuple(n int) func(*scanner) error {
	return func(s *scanner) error {
		var items []symbol
		if n < 0 {
			var err error
			if items, err = s.popMark(); err != nil {
				return err
			}
		} else {
			if len(s.stack)-n < s.base() {
				return fmt.Errorf("needs %d values, the stack has %d", n, len(s.stack)-s.base())
			}
			items = s.stack[len(s.stack)-n:]
			s.stack = s.stack[:len(s.stack)-n]
		}
		s.pass()
		tuple := symbol{kind: kindTuple, depth: 1}
		if err := nest(&tuple, items...); err != nil {
			return err
		}
		s.push(tuple, costTuple+2*costAtom*len(items))
		return nil
	}
}

func scanList(s *scanner) error {
	items, err := s.popMark()
	if err != nil {
		return err
	}
	s.pass()
	list := symbol{kind: kindList, depth: 1}
	if err := nest(&list, items...); err != nil {
		return err
	}
	s.push(list, costList+2*costAtom*len(items))
	return nil
}

func scanDict(s *scanner) error {
	items, err := s.popMark()
	if err != nil {
		return err
	}
	if len(items)%2 != 0 {
		return fmt.Errorf("a key has no value")
	}
	s.pass()
	dict := symbol{kind: kindDict, depth: 1}
	if err := nest(&dict, items...); err != nil {
		return err
	}
	s.push(dict, costDict+8*costAtom*len(items))
	return nil
}

// scanFrozenSet rewrites FROZENSET as a list for an internal class: see [frozenSetMark].
func scanFrozenSet(s *scanner) error {
	items, err := s.popMark()
	if err != nil {
		return err
	}
	set := symbol{kind: kindSet, depth: 1}
	if err := nest(&set, items...); err != nil {
		return err
	}
	s.emit(opList)
	s.internal(frozenSetMark)
	s.push(set, costCall+2*costAtom*len(items))
	return nil
}

// internal makes the interpreter hand (value on top, class) to the persistent
// hook, which is how operations it lacks are added.
func (s *scanner) internal(mark globalName) {
	s.global(mark)
	s.stack = s.stack[:len(s.stack)-1]
	s.emit(opTuple2, opBinPersID)
}

func scanAppend(s *scanner) error {
	item, err := s.pop()
	if err != nil {
		return err
	}
	return s.extend([]symbol{item}, 2*costAtom, kindList, kindObject)
}

func scanAppends(s *scanner) error {
	items, err := s.popMark()
	if err != nil {
		return err
	}
	return s.extend(items, 2*costAtom, kindList, kindObject)
}

func scanSetItem(s *scanner) error {
	value, err := s.pop()
	if err != nil {
		return err
	}
	key, err := s.pop()
	if err != nil {
		return err
	}
	return s.extend([]symbol{key, value}, 8*costAtom, kindDict, kindObject)
}

func scanSetItems(s *scanner) error {
	items, err := s.popMark()
	if err != nil {
		return err
	}
	if len(items)%2 != 0 {
		return fmt.Errorf("a key has no value")
	}
	return s.extend(items, 8*costAtom, kindDict, kindObject)
}

func scanAddItems(s *scanner) error {
	items, err := s.popMark()
	if err != nil {
		return err
	}
	return s.extend(items, 2*costAtom, kindSet, kindObject)
}

// extend adds items to the container on top, which must be of one of the kinds.
func (s *scanner) extend(items []symbol, cost int, kinds ...kind) error {
	container, err := s.top(kinds...)
	if err != nil {
		return err
	}
	s.pass()
	s.cost += cost * len(items)
	return nest(container, items...)
}

// scanCall checks REDUCE and NEWOBJ: a class and a tuple of arguments.
func scanCall(s *scanner) error {
	args, err := s.top(kindTuple)
	if err != nil {
		return err
	}
	depth := args.depth
	s.stack = s.stack[:len(s.stack)-1]
	if _, err := s.top(kindClass, kindPersistent); err != nil {
		return err
	}
	s.pass()
	s.stack[len(s.stack)-1] = symbol{kind: kindObject, depth: depth + 1}
	s.cost += costCall
	return nil
}

// scanNewObjEx rewrites NEWOBJ_EX as the call that protocol 2 makes of it,
// copyreg.__newobj_ex__(class, args, kwargs).
func scanNewObjEx(s *scanner) error {
	object := symbol{kind: kindObject}
	for _, k := range []kind{kindDict, kindTuple, kindClass} {
		v, err := s.top(k)
		if err != nil {
			return err
		}
		if err := nest(&object, *v); err != nil {
			return err
		}
		s.stack = s.stack[:len(s.stack)-1]
	}
	s.emit(opTuple3)
	s.internal(newObjExMark)
	s.push(object, costCall)
	return nil
}

func scanBuild(s *scanner) error {
	state, err := s.pop()
	if err != nil {
		return err
	}
	object, err := s.top(kindObject)
	if err != nil {
		return err
	}
	s.pass()
	return nest(object, state)
}

func scanPersistent(s *scanner) error {
	id, err := s.top(kindTuple, kindString)
	if err != nil {
		return err
	}
	s.pass()
	*id = symbol{kind: kindPersistent}
	s.cost += costCall
	return nil
}
