package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rejoin/collective"
	"rejoin/collective/bench"
	"rejoin/collective/collectivetest"
)

func TestRound(t *testing.T) {
	var printed bytes.Buffer
	collectivetest.Run(t, 2, func(ctx context.Context, g *collective.Group) error { return bench.Rank(ctx, g, &printed) })
	r := bench.NewResult(2, 1, "no torch here")
	if err := r.Add(false, printed.Bytes()); err != nil {
		t.Fatal(err)
	}
	for i, s := range r.Sizes {
		if s.Bytes != bench.Sizes[i] || s.Rejoin.Calls < 10 || s.Rejoin.Median <= 0 || s.Rejoin.Mean <= 0 || s.Gloo != nil || s.Ratio != 0 {
			t.Errorf("%+v", s)
		}
	}
	var text strings.Builder
	if err := r.WriteText(&text, strings.ToUpper); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BETWEEN 2 PROCESSES", "64 MiB", "4 B", "gloo: skipped: no torch here"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// printed is what rank 0 prints if the calls of every size take the given times.
func printed(torch string, times ...float64) []byte {
	var b bytes.Buffer
	for _, n := range bench.Sizes {
		seconds := make([]string, len(times))
		for k, s := range times {
			seconds[k] = fmt.Sprint(s)
		}
		fmt.Fprintf(&b, "{\"bytes\":%d,\"seconds\":[%s],\"torch\":%q}\n", n, strings.Join(seconds, ","), torch)
	}
	return b.Bytes()
}

// Scripts read these keys.
func TestResult(t *testing.T) {
	r := bench.NewResult(4, 2, "")
	for _, round := range [][]byte{printed("", 0.25, 1.25), printed("", 0.5, 2)} {
		if err := r.Add(false, round); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Add(true, printed("2.14.1", 1.25, 3.75, 1.25, 1.75)); err != nil {
		t.Fatal(err)
	}
	if s := r.Sizes[0]; s.Rejoin != (bench.Times{Calls: 4, Median: 1.25, Mean: 1}) || *s.Gloo != (bench.Times{Calls: 4, Median: 1.75, Mean: 2}) || s.Ratio != 1.4 {
		t.Errorf("%+v, gloo %+v", s, s.Gloo)
	}
	var raw struct {
		NProc, Rounds int
		Torch         string
		Sizes         []map[string]any
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &raw); err != nil || raw.NProc != 4 || raw.Rounds != 2 || raw.Torch != "2.14.1" || len(raw.Sizes) != len(bench.Sizes) {
		t.Errorf("%v: %s", err, b)
	}
	for _, key := range []string{"bytes", "rejoin", "gloo", "ratio"} {
		if _, ok := raw.Sizes[0][key]; !ok {
			t.Errorf("no %q in %s", key, b)
		}
	}
	var text strings.Builder
	if err := r.WriteText(&text, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gloo (torch 2.14.1)", "1250.00 ms", "1.40"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestAddRefuses(t *testing.T) {
	good := printed("", 1)
	for name, in := range map[string][]byte{
		"nothing": nil,
		"text":    []byte("hello\n"),
		"less":    good[:bytes.IndexByte(good, '\n')],
		"other":   slices.Concat([]byte(`{"bytes":5,"seconds":[1]}`), good),
		"no time": bytes.ReplaceAll(good, []byte("[1]"), []byte("[]")),
	} {
		if err := bench.NewResult(2, 1, "").Add(false, in); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
