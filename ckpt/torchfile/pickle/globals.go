package pickle

import "rejoin/pyobj"

type globalName = pyobj.Global

// Classes that the scan itself writes into the stream. A pickle can name the
// two marks as well and gets no more by it than by the opcodes they stand for.
var (
	setClass      = globalName{Module: "builtins", Name: "set"}
	frozenSetMark = globalName{Module: "\x00rejoin", Name: "frozenset"}
	newObjExMark  = globalName{Module: "\x00rejoin", Name: "newobj_ex"}
)

// forbiddenModules run code or reach out of the process whatever is called in them.
var forbiddenModules = map[string]bool{
	"os": true, "posix": true, "nt": true, "sys": true, "subprocess": true, "shutil": true, "pty": true,
	"socket": true, "importlib": true, "imp": true, "runpy": true, "ctypes": true, "_ctypes": true,
	"code": true, "codeop": true, "marshal": true, "pickle": true, "_pickle": true, "cPickle": true,
	"commands": true, "popen2": true, "platform": true, "webbrowser": true, "pdb": true, "bdb": true,
	"timeit": true, "profile": true, "cProfile": true, "tempfile": true, "signal": true,
	"multiprocessing": true, "threading": true, "_thread": true, "asyncio": true, "http": true, "urllib": true,
	"ftplib": true, "smtplib": true, "requests": true, "pip": true, "distutils": true, "setuptools": true, "gc": true,
}

// forbiddenNames are functions of otherwise harmless modules.
var forbiddenNames = map[globalName]bool{}

func init() {
	for _, module := range []string{"builtins", "__builtin__", "__builtins__"} {
		for _, name := range []string{
			"eval", "exec", "execfile", "compile", "getattr", "setattr", "delattr", "hasattr", "__import__",
			"open", "file", "input", "raw_input", "apply", "globals", "locals", "vars", "breakpoint", "exit", "quit",
			"reload", "memoryview",
		} {
			forbiddenNames[globalName{Module: module, Name: name}] = true
		}
	}
	for _, module := range []string{"operator", "_operator"} {
		for _, name := range []string{"attrgetter", "itemgetter", "methodcaller", "call"} {
			forbiddenNames[globalName{Module: module, Name: name}] = true
		}
	}
	for _, g := range []globalName{
		{Module: "torch", Name: "load"},
		{Module: "torch.serialization", Name: "load"},
		{Module: "torch.hub", Name: "load"},
		{Module: "torch.jit", Name: "load"},
		{Module: "numpy", Name: "load"},
		{Module: "numpy.f2py", Name: "compile"},
		{Module: "functools", Name: "reduce"},
		{Module: "types", Name: "CodeType"},
		{Module: "types", Name: "FunctionType"},
		{Module: "torch.storage", Name: "_load_from_bytes"},
	} {
		forbiddenNames[g] = true
	}
}

// forbidden reports whether g could only do harm if it were called: such a name
// condemns the file even where unknown classes are merely described.
func forbidden(g pyobj.Global) bool {
	if forbiddenNames[g] {
		return true
	}
	top := g.Module
	for i, c := range top {
		if c == '.' {
			top = top[:i]
			break
		}
	}
	return forbiddenModules[top]
}
