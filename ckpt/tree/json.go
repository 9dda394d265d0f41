package tree

import (
	"maps"
	"slices"
)

// mapChildren takes a JSON object apart, by sorted keys.
func mapChildren(m map[string]any) []child {
	out := make([]child, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, child{key, m[key]})
	}
	return out
}

// fromJSON reports whether v is one of JSON's containers, which never contain
// themselves.
func fromJSON(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
