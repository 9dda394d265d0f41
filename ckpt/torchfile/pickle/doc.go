// Package pickle reads Python pickles as data and writes them as Python does.
//
// Reading is in three steps, none of which runs anything:
//
//  1. A scan walks the opcodes once, over bytes in memory: an allow-list, every
//     length against what is left, the stack, the marks, the memo, the kinds of
//     the operands, nesting and the memory that the objects will take. It
//     rewrites the stream so that each class is a number in a table.
//  2. gopickle's interpreter runs the rewritten stream; calls become nodes.
//  3. The nodes become package pyobj's values. Here a class is looked up: known
//     data is built, an unknown class is described or refused by its name and
//     key path, and what could only do harm (os, eval …) is always refused.
//
// Memory and time are bounded by the length of the pickle.
//
// Writing emits protocol 2, opcode for opcode what CPython's C pickler emits
// under torch.save (CPython 3.11, Modules/_pickle.c).
//
// It knows Python's own and numpy's data; torch's classes come from the caller.
package pickle
