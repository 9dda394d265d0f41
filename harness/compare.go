package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rejoin/ckpt/hf"
	"rejoin/pyobj"
)

// CompareCheckpoints lists in what the checkpoint directory found differs from
// expected, in the order of cause before consequence: position, schedule,
// optimizer, weights, random states, log. With a tolerance of 0, and no parts
// chosen, every file is compared byte for byte, too. The error says that one
// could not be read.
func CompareCheckpoints(found, expected string, tolerance float64, parts []Part) ([]Difference, error) {
	a, err := hf.Open(found, hf.Options{})
	if err != nil {
		return nil, err
	}
	defer a.Close()
	b, err := hf.Open(expected, hf.Options{})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	c := comparison{a: a, b: b, tolerance: tolerance}
	whole := parts == nil
	if whole {
		parts = allParts
	}
	for _, p := range allParts {
		if slices.Contains(parts, p) {
			if err := c.part(p); err != nil {
				return nil, err
			}
		}
	}
	if whole && tolerance == 0 {
		if err := c.files(); err != nil {
			return nil, err
		}
	}
	return c.out, nil
}

// comparison is that of two checkpoints under way.
type comparison struct {
	a, b      *hf.Checkpoint
	tolerance float64
	out       []Difference
}

func (c *comparison) part(p Part) error {
	switch p {
	case Position, Log:
		return c.state(p)
	case Scheduler:
		return c.scheduler()
	case Optimizer:
		return c.optimizer()
	case Weights:
		return c.weights()
	default:
		return c.random()
	}
}

// add notes differences of a part that lie in a file.
func (c *comparison) add(p Part, file, means string, ds ...Difference) {
	for _, d := range ds {
		d.Part, d.Where = p, filepath.Base(c.a.Dir())+"/"+file
		if d.Means == "" {
			d.Means = means
		}
		c.out = append(c.out, d)
	}
}

func (c *comparison) state(p Part) error {
	a, err1 := c.a.State()
	b, err2 := c.b.State()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if p == Log {
		c.add(Log, hf.StateFile, meansLog, compareLogs(a.LogHistory(), b.LogHistory(), c.tolerance)...)
		return nil
	}
	for _, key := range []string{"global_step", "epoch", "max_steps"} {
		if x, y := a.Get(key), b.Get(key); !sameNumber(x, y) {
			c.add(Position, hf.StateFile, meansPosition, Difference{What: key, Found: describe(x), Expected: describe(y)})
		}
	}
	return nil
}

// compareLogs compares log histories entry by entry. Learning rates, epochs and
// steps are compared exactly, measured numbers within the tolerance.
func compareLogs(found, expected []map[string]any, tolerance float64) []Difference {
	var out []Difference
	if len(found) != len(expected) {
		out = append(out, Difference{What: "log_history", Found: fmt.Sprintf("%d entries", len(found)), Expected: strconv.Itoa(len(expected))})
	}
	for i := range min(len(found), len(expected)) {
		at := "log entry of step " + describe(expected[i]["step"])
		for _, key := range []string{"step", "epoch", "learning_rate", "grad_norm", "loss"} {
			x, y := found[i][key], expected[i][key]
			if near(x, y, tolerance, key) {
				continue
			}
			d := Difference{What: at + ": " + key, Found: describe(x), Expected: describe(y)}
			switch key {
			case "learning_rate":
				d.Means = meansRate
			case "grad_norm":
				d.Means = meansGradients
			}
			out = append(out, d)
		}
	}
	return out
}

func near(x, y any, tolerance float64, key string) bool {
	if sameNumber(x, y) || x == nil && y == nil {
		return true
	}
	a, err1 := pyobj.AsFloat(x)
	b, err2 := pyobj.AsFloat(y)
	if err1 != nil || err2 != nil || key != "loss" && key != "grad_norm" {
		return false
	}
	return max(a-b, b-a) <= tolerance*max(b, -b)
}

func (c *comparison) scheduler() error {
	a, err1 := c.a.Scheduler()
	b, err2 := c.b.Scheduler()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ds := compareLeaves(a, b, 0, func(string) bool { return true })
	c.add(Scheduler, hf.SchedulerFile, meansSchedule, ds...)
	return nil
}

// optimizerKeys are what an optimizer's group says of the arithmetic; other keys
// (foreach, fused, capturable …) say how torch is to do it.
var optimizerKeys = []string{"lr", "initial_lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "params"}

func (c *comparison) optimizer() error {
	a, err1 := c.a.Optimizer()
	b, err2 := c.b.Optimizer()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	keep := func(path string) bool {
		parts := strings.Split(path, ".")
		return parts[0] != "param_groups" || len(parts) > 2 && slices.Contains(optimizerKeys, parts[2])
	}
	ds := compareLeaves(a, b, c.tolerance, keep)
	for i := range ds {
		ds[i].What, ds[i].Means = optimizerLeaf(ds[i].What)
	}
	c.add(Optimizer, hf.OptimizerFile, meansMoments, ds...)
	return nil
}

// optimizerLeaf says in words what a key path of an optimizer's state_dict is.
func optimizerLeaf(path string) (what, means string) {
	parts := strings.Split(path, ".")
	switch {
	case len(parts) == 3 && parts[0] == "state" && parts[2] == "step":
		return "step of parameter " + parts[1], meansCounter
	case len(parts) == 3 && parts[0] == "state":
		return parts[2] + " of parameter " + parts[1], meansMoments
	case len(parts) == 3 && parts[2] == "lr":
		return "lr of group " + parts[1], meansRate
	}
	return path, meansMoments
}

func (c *comparison) weights() error {
	a, err1 := c.a.Weights()
	b, err2 := c.b.Weights()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	dict := func(names []string, get func(string) any) *pyobj.Dict {
		d := pyobj.NewDict()
		for _, n := range names {
			d.Set(n, get(n))
		}
		return d
	}
	x := dict(a.Names(), func(n string) any { t, _ := a.Get(n); return t })
	y := dict(b.Names(), func(n string) any { t, _ := b.Get(n); return t })
	ds := compareLeaves(x, y, c.tolerance, func(string) bool { return true })
	c.add(Weights, "weights", meansWeights, ds...)
	return nil
}

// random compares each rank's generators, exactly.
func (c *comparison) random() error {
	n, err := c.a.WorldSize()
	if err != nil {
		return err
	}
	m, err := c.b.WorldSize()
	if err != nil {
		return err
	}
	if n != m {
		c.add(Random, "rng_state", meansRandom, Difference{What: "world size", Found: strconv.Itoa(n), Expected: strconv.Itoa(m)})
		return nil
	}
	for rank := range n {
		file := hf.RandomStateFile(rank, n)
		a, err1 := c.a.RandomState(rank, n)
		b, err2 := c.b.RandomState(rank, n)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if !bytes.Equal(a.CPU, b.CPU) {
			c.add(Random, file, meansRandom, Difference{
				What:  fmt.Sprintf("rank %d's random state", rank),
				Found: "another state of torch's generator", Expected: "the run's",
			})
		}
	}
	return nil
}

// files compares every file's bytes; one whose contents are known to differ is
// not named again.
func (c *comparison) files() error {
	a, err := fileSet(c.a.Dir())
	if err != nil {
		return err
	}
	b, err := fileSet(c.b.Dir())
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, d := range c.out {
		known[filepath.Base(d.Where)] = true
		if d.Part == Weights {
			known[hf.SafeWeightsFile] = true
		}
	}
	names := slices.Sorted(keysOf(a, b))
	for _, name := range slices.Compact(names) {
		x, ok1 := a[name]
		y, ok2 := b[name]
		switch {
		case !ok1:
			c.add("", name, "", Difference{Found: "no such file", Expected: "a file"})
		case !ok2:
			c.add("", name, "", Difference{Found: "a file", Expected: "none"})
		case !bytes.Equal(x, y) && !known[name] && (name != hf.ManifestFile || len(c.out) == 0):
			c.add("", name, "", Difference{Found: fmt.Sprintf("other bytes, from byte %d on", firstByte(x, y)), Expected: "the same file"})
		}
	}
	return nil
}

func keysOf(maps ...map[string][]byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, m := range maps {
			for k := range m {
				if !yield(k) {
					return
				}
			}
		}
	}
}

func firstByte(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// fileSet reads all files of a directory. Checkpoints of scenarios are small.
func fileSet(dir string) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		out[rel], err = os.ReadFile(path)
		return err
	})
	return out, err
}
