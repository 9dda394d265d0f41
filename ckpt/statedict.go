package ckpt

import (
	"fmt"
	"strings"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// StateDictError is an object in which no model's state dict was found.
type StateDictError struct {
	Path    string
	Problem string
	Next    string
}

func (e *StateDictError) Error() string {
	msg := e.Problem + "; " + e.Next
	if e.Path != "" {
		msg = e.Path + ": " + msg
	}
	return msg
}

// wrappers are the keys under which training scripts keep the model's state
// dict, in the order in which they are tried.
var wrappers = []string{"model_state_dict", "state_dict", "model", "module", "model_state", "net", "network", "weights"}

// maxModuleDepth and maxModules bound the walk into a pickled module: modules
// may be shared, so their tree can be far larger than the file.
const (
	maxModuleDepth = 200
	maxModules     = 100_000
)

// StateDict finds the model's tensors in an object that torch.save wrote: a dict
// of tensors, such a dict in a wrapper, or a whole pickled module whose
// parameters and buffers are taken out of its description. wrapper is the key
// they were under, "" for none. Nothing is renamed.
func StateDict(object any) (sd *tensor.StateDict, wrapper string, err error) {
	if o, ok := object.(*pyobj.Object); ok {
		sd, err := moduleState(o)
		return sd, "", err
	}
	dict, ok := object.(*pyobj.Dict)
	if !ok {
		return nil, "", notFound("the file holds a %s, not a state_dict", pyobj.TypeName(object))
	}
	for _, key := range wrappers {
		inner, ok := dict.Get(key)
		if !ok {
			continue
		}
		if o, ok := inner.(*pyobj.Object); ok {
			sd, err := moduleState(o)
			return sd, key, err
		}
		if d, ok := inner.(*pyobj.Dict); ok {
			if sd := tensorsOf(d); sd.Len() > 0 {
				return sd, key, nil
			}
		}
	}
	if err := otherKind(dict); err != nil {
		return nil, "", err
	}
	if sd := tensorsOf(dict); sd.Len() > 0 {
		return sd, "", nil
	}
	return nil, "", listKeys(dict)
}

// tensorsOf takes the entries that are tensors under a name.
func tensorsOf(d *pyobj.Dict) *tensor.StateDict {
	sd := tensor.NewStateDict()
	for _, e := range d.Entries() {
		name, ok := e.Key.(string)
		if !ok {
			continue
		}
		if t, err := pyobj.AsTensor(e.Value); err == nil {
			sd.Set(name, t)
		}
	}
	return sd
}

func notFound(format string, args ...any) *StateDictError {
	return &StateDictError{Problem: fmt.Sprintf(format, args...), Next: "name the file that holds the model's weights"}
}

// otherKind recognizes the other files of a checkpoint by their keys.
func otherKind(d *pyobj.Dict) error {
	has := func(keys ...string) bool {
		for _, key := range keys {
			if _, ok := d.Get(key); !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("state", "param_groups"):
		return notFound("the file is an optimizer's state, not a model's")
	case has("last_epoch", "_step_count"):
		return notFound("the file is a learning-rate schedule's state, not a model's")
	case has("python", "numpy", "cpu"):
		return notFound("the file holds random states, not a model")
	}
	return nil
}

// maxListed is how many keys an error lists.
const maxListed = 10

func listKeys(d *pyobj.Dict) error {
	if d.Len() == 0 {
		return notFound("the file holds an empty dict")
	}
	var keys []string
	for _, e := range d.Entries()[:min(d.Len(), maxListed)] {
		keys = append(keys, fmt.Sprintf("%s (%s)", keyText(e.Key), pyobj.TypeName(e.Value)))
	}
	if more := d.Len() - maxListed; more > 0 {
		keys = append(keys, fmt.Sprintf("… %d more", more))
	}
	return notFound("no tensors are under a name; the keys are %s", strings.Join(keys, ", "))
}

// keyText is a key in a message: text cut to a length, other kinds by their type.
func keyText(key any) string {
	const longest = 80
	switch k := key.(type) {
	case string:
		if len(k) > longest {
			return fmt.Sprintf("%q…", k[:longest])
		}
		return k
	case int64, bool, float64, nil:
		return fmt.Sprint(k)
	}
	return pyobj.TypeName(key)
}

// moduleState takes the tensors of a pickled torch.nn.Module, as
// Module.state_dict does: parameters, persistent buffers, then the children.
func moduleState(o *pyobj.Object) (*tensor.StateDict, error) {
	sd, left := tensor.NewStateDict(), maxModules
	if err := addModule(sd, o, "", 0, &left); err != nil {
		return nil, err
	}
	if sd.Len() == 0 {
		return nil, notFound("the file holds an object of class %v without parameters", o.Class)
	}
	return sd, nil
}

func addModule(sd *tensor.StateDict, o *pyobj.Object, prefix string, depth int, left *int) error {
	if *left--; *left < 0 {
		return notFound("the file holds over %d modules", maxModules)
	}
	if depth > maxModuleDepth {
		return notFound("the modules nest deeper than %d levels, or contain themselves", maxModuleDepth)
	}
	skip := nonPersistent(o)
	for _, part := range []string{"_parameters", "_buffers"} {
		for _, e := range attrEntries(o, part) {
			name, ok := e.Key.(string)
			if t, err := pyobj.AsTensor(e.Value); ok && err == nil && (part != "_buffers" || !skip[name]) {
				sd.Set(prefix+name, t)
			}
		}
	}
	for _, e := range attrEntries(o, "_modules") {
		name, ok := e.Key.(string)
		if child, isModule := e.Value.(*pyobj.Object); ok && isModule {
			if err := addModule(sd, child, prefix+name+".", depth+1, left); err != nil {
				return err
			}
		}
	}
	return nil
}

func attrEntries(o *pyobj.Object, name string) []pyobj.Entry {
	v, _ := o.Attr(name)
	if d, ok := v.(*pyobj.Dict); ok {
		return d.Entries()
	}
	return nil
}

// nonPersistent names the buffers that state_dict leaves out.
func nonPersistent(o *pyobj.Object) map[string]bool {
	names := map[string]bool{}
	v, _ := o.Attr("_non_persistent_buffers_set")
	if s, ok := v.(*pyobj.Set); ok {
		for _, item := range s.Items {
			if name, ok := item.(string); ok {
				names[name] = true
			}
		}
	}
	return names
}
