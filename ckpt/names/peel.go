package names

import (
	"path"
	"slices"
	"strings"
)

// Wrappers are the prefixes that torch's wrappers put before every key of the
// model inside: DataParallel and DistributedDataParallel, torch.compile.
var Wrappers = []string{"module.", "_orig_mod."}

// maxStack bounds the wrappers in a stack of them.
const maxStack = 8

// wrapperOf is the wrapper prefix that key begins with, "" for none.
func wrapperOf(key string) string {
	for _, w := range Wrappers {
		if strings.HasPrefix(key, w) && len(key) > len(w) {
			return w
		}
	}
	return ""
}

// CommonWrappers is the longest stack of wrapper prefixes that all keys begin
// with, outermost first; nil for none. Wrappers that are on some keys only are
// no stack: see [Mixed].
func CommonWrappers(keys []string) []string {
	var stack []string
	if len(keys) == 0 {
		return nil
	}
	for prefix := ""; len(stack) < maxStack; {
		next := wrapperOf(keys[0][len(prefix):])
		if next == "" {
			break
		}
		prefix += next
		if slices.ContainsFunc(keys, func(k string) bool { return !strings.HasPrefix(k, prefix) || len(k) == len(prefix) }) {
			break
		}
		stack = append(stack, next)
	}
	return stack
}

// Mixed returns the keys that begin with a wrapper prefix, if others do not.
func Mixed(keys []string) (wrapped []string) {
	for _, k := range keys {
		if wrapperOf(k) != "" {
			wrapped = append(wrapped, k)
		}
	}
	if len(wrapped) == len(keys) {
		return nil
	}
	return wrapped
}

// matchAny reports whether key matches one of the patterns: names in which *
// stands for any run of characters but none of "/", ? for one.
func matchAny(patterns []string, key string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, key)
		return err == nil && ok || p == key
	})
}

// CheckPatterns returns an error for the first pattern that is none.
func CheckPatterns(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return &PatternError{Pattern: p, Err: err}
		}
	}
	return nil
}
