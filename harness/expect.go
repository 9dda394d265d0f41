package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rejoin/ckpt/hf"
	"rejoin/ckpt/torchfile"
)

// check returns what of the expectation is not met, a sentence each. The error
// says that something could not be looked at.
func (r *jobRun) check() ([]string, error) {
	want := &r.job.Expect
	var out []string
	fail := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if r.code != want.Exit {
		fail("exit code %d, expected %d", r.code, want.Exit)
	}
	r.checkRanks(fail)
	r.checkTexts(fail)
	err := r.checkCheckpoints(fail)
	for _, step := range []func(func(string, ...any)) error{r.checkRows, r.checkEqual} {
		if err == nil {
			err = step(fail)
		}
	}
	return out, err
}

func (r *jobRun) checkRanks(fail func(string, ...any)) {
	for _, rank := range sortedKeys(r.job.Expect.Ranks) {
		want := r.job.Expect.Ranks[rank]
		i := slices.IndexFunc(r.ranks, func(x Rank) bool { return x.Rank == rank })
		switch {
		case i < 0:
			fail("rank %d was not started, expected exit code %d of it", rank, want)
		case r.ranks[i].End == 0:
			fail("rank %d was not seen to end, expected exit code %d of it", rank, want)
		case r.ranks[i].Code != want:
			fail("rank %d: exit code %d, expected %d", rank, r.ranks[i].Code, want)
		}
	}
}

func (r *jobRun) checkTexts(fail func(string, ...any)) {
	want := &r.job.Expect
	count := func(part string, rank int) (n int) {
		for _, l := range r.lines {
			if (rank < 0 || l.Rank == rank) && strings.Contains(l.Text, part) {
				n++
			}
		}
		return n
	}
	for _, part := range want.Says {
		if count(part, -1) == 0 {
			fail("nothing printed says %q", part)
		}
	}
	for _, rank := range sortedKeys(want.RankSays) {
		for _, part := range want.RankSays[rank] {
			if count(part, rank) == 0 {
				fail("rank %d does not say %q", rank, part)
			}
		}
	}
	for _, part := range want.Once {
		if n := count(part, -1); n != 1 {
			fail("%q is said %d times, expected once", part, n)
		}
	}
	for _, part := range want.Silent {
		if count(part, -1) > 0 {
			fail("%q is said, expected not to be", part)
		}
	}
}

func (r *jobRun) checkCheckpoints(fail func(string, ...any)) error {
	if r.job.Expect.Checkpoints == nil {
		return nil
	}
	steps, err := r.checkpoints()
	if err != nil {
		return err
	}
	if want := r.job.Expect.Checkpoints; !slices.Equal(steps, want) {
		fail("checkpoints of steps %v are in %s, expected %v", steps, r.job.Output, want)
	}
	for _, step := range steps {
		if err := hf.Complete(filepath.Join(r.output(), hf.DirName(step))); err != nil && slices.Contains(r.job.Expect.Checkpoints, step) {
			fail("checkpoint-%d is not complete: %v", step, err)
		}
	}
	return nil
}

func (r *jobRun) checkRows(fail func(string, ...any)) error {
	want := r.job.Expect.Rows
	if want == nil {
		return nil
	}
	traces, err := ReadTraces(r.output())
	if err != nil {
		return err
	}
	for _, rank := range sortedKeys(want) {
		if rank >= len(traces) {
			fail("rank %d left no trace of its rows", rank)
			continue
		}
		if d, same := compareRows(traces[rank].MicroBatches, want[rank], 0); !same {
			d.Where = fmt.Sprintf("trace of rank %d", rank)
			fail("%v", d)
		}
	}
	return nil
}

func (r *jobRun) checkEqual(fail func(string, ...any)) error {
	for _, e := range r.job.Expect.Equal {
		var ds []Difference
		var err error
		if e.File != "" {
			ds, err = r.compareFile(e)
		} else {
			ds, err = r.compareRun(e)
		}
		if errors.Is(err, os.ErrNotExist) {
			fail("cannot be compared with %s: %v", e.To, err)
			continue
		}
		if err != nil {
			return err
		}
		for i, d := range ds {
			if i == maxDifferences {
				fail("… and %d more differences from %s", len(ds)-i, e.To)
				break
			}
			fail("%v; compared with %s", d, e.To)
		}
	}
	return nil
}

// maxDifferences bounds how many differences of one comparison are told.
const maxDifferences = 8

func (r *jobRun) compareFile(e Equality) ([]Difference, error) {
	a, err1 := os.ReadFile(filepath.Join(r.output(), e.File))
	b, err2 := os.ReadFile(filepath.Join(r.dir, e.To))
	if err := errors.Join(err1, err2); err != nil || bytes.Equal(a, b) {
		return nil, err
	}
	// Python writes equal objects in several ways: what they hold counts.
	x, err1 := torchfile.Read(a, e.File, torchfile.Options{})
	y, err2 := torchfile.Read(b, e.To, torchfile.Options{})
	if err1 == nil && err2 == nil {
		ds := compareLeaves(x.Object(), y.Object(), 0, func(string) bool { return true })
		for i := range ds {
			ds[i].Where, ds[i].Means = e.File, meansOfFile(e.File)
		}
		return ds, nil
	}
	return []Difference{{
		Where: e.File, Found: fmt.Sprintf("other bytes, from byte %d on", firstByte(a, b)), Expected: "the same file", Means: meansOfFile(e.File),
	}}, nil
}

// meansOfFile is what a difference in a file comes from, if its name tells.
func meansOfFile(name string) string {
	if strings.HasPrefix(filepath.Base(name), "rng_state") {
		return meansRandom
	}
	return ""
}

func (r *jobRun) compareRun(e Equality) ([]Difference, error) {
	to := filepath.Join(r.dir, e.To)
	var out []Difference
	if e.Rows != nil {
		found, err1 := ReadTraces(r.output())
		expected, err2 := ReadTraces(to)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		out = compareTraces(found, expected, *e.Rows)
	}
	steps := e.Checkpoints
	if steps == nil {
		var err error
		if steps, err = r.common(to); err != nil {
			return nil, err
		}
		if len(steps) == 0 {
			return append(out, Difference{Where: r.job.Output, Found: "no checkpoint", Expected: "one to compare"}), nil
		}
	}
	for _, step := range steps {
		ds, err := CompareCheckpoints(filepath.Join(r.output(), hf.DirName(step)), filepath.Join(to, hf.DirName(step)), e.Tolerance, e.Parts)
		if unreadable := (*hf.FileError)(nil); errors.As(err, &unreadable) || isNotCheckpoint(err) {
			ds, err = []Difference{{Where: hf.DirName(step), Found: err.Error(), Expected: "a whole checkpoint"}}, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, ds...)
	}
	return out, nil
}

func isNotCheckpoint(err error) bool {
	_, ok := errors.AsType[*hf.NotCheckpointError](err)
	return ok
}

// common are the steps of the checkpoints that both runs have.
func (r *jobRun) common(to string) ([]int, error) {
	mine, err := r.checkpoints()
	if err != nil {
		return nil, err
	}
	theirs, err := hf.List(to)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(mine, func(step int) bool {
		return !slices.ContainsFunc(theirs, func(f hf.Found) bool { return f.Step == step })
	}), nil
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
