package pyjson

import "math"

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// Clone returns a deep copy of a value of the package's mapping.
func Clone(v any) any {
	switch v := v.(type) {
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = Clone(item)
		}
		return items
	case map[string]any:
		return CloneMap(v)
	default:
		return v
	}
}

// CloneMap is [Clone] for a dict.
func CloneMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	items := make(map[string]any, len(m))
	for k, item := range m {
		items[k] = Clone(item)
	}
	return items
}
