//go:build rejoin_fault

package fault

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]spec{
		"":                                     {count: 1},
		"gather:kill":                          {point: "gather", action: "kill", count: 1},
		"gather@1#3:delay=500ms":               {point: "gather", rank: "1", action: "delay", count: 3, delay: 500 * time.Millisecond},
		"write optimizer.pt:full":              {point: "write optimizer.pt", action: "full", count: 1},
		"*:list=/tmp/a b":                      {point: "*", action: "list", count: 1, file: "/tmp/a b"},
		"rename checkpoint-4#2:fail":           {point: "rename checkpoint-4", action: "fail", count: 2},
		"removeAll .removed-checkpoint-2:kill": {point: "removeAll .removed-checkpoint-2", action: "kill", count: 1},
	} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%q = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"gather", "gather:explode", ":kill", "x#many:kill", "x:delay=soon"} {
		if got, err := parse(text); err == nil {
			t.Errorf("%q = %+v, want an error", text, got)
		}
	}
}

func TestMeets(t *testing.T) {
	s := spec{point: "gather", rank: "1", action: "kill"}
	for _, tc := range []struct {
		point, rank string
		want        bool
	}{{"gather", "1", true}, {"gather", "0", false}, {"snapshot", "1", false}} {
		if got := s.meets(tc.point, tc.rank); got != tc.want {
			t.Errorf("%s on rank %s: %v", tc.point, tc.rank, got)
		}
	}
	if (spec{point: "*"}).meets("gather", "1") {
		t.Error("no action, yet it meets")
	}
}
