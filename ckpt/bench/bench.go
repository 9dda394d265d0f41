package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"rejoin/ckpt/safetensors"
	"rejoin/ckpt/torchfile"
)

// Options say what to measure.
type Options struct {
	// Bytes is about how much state to generate.
	Bytes int64
	// Rounds is how often each operation is timed; below 1 means 3.
	Rounds int
	// Python is an interpreter that has torch; "" measures without it.
	Python string
	// NoTorch says why Python is "".
	NoTorch string
	// Hold is the command of a process that calls [Hold] with its standard streams,
	// and Processes how many of them load the file at once, for each [Host].
	Hold      func(ctx context.Context, path string) *exec.Cmd
	Processes []int
	// Progress, if not nil, is told how many bytes of all are read and written.
	Progress func(done, total int64)
}

// Measure is the fastest round of one operation.
type Measure struct {
	// Who is "rejoin", "torch" or "plain".
	Who string `json:"who"`
	// Operation is "open", "load" or "save".
	Operation string `json:"operation"`
	// How tells two ways of one operation apart, such as "mmap=True".
	How     string  `json:"how"`
	Seconds float64 `json:"seconds"`
	// GBPerSecond is the state's bytes by the time, in 1e9 bytes a second; 0 for
	// an opening, which does not read them.
	GBPerSecond float64 `json:"gb_per_s"`
	// Own is by how much the process' own memory grew, in bytes, and Resident at
	// its highest with pages of mapped files, which processes of a host share;
	// the most of all rounds. Both are nil where the system does not tell them.
	Own      *int64 `json:"own_bytes,omitempty"`
	Resident *int64 `json:"resident_bytes,omitempty"`
}

// Result is what was measured.
type Result struct {
	StateBytes int64     `json:"state_bytes"`
	Tensors    int       `json:"tensors"`
	Rounds     int       `json:"rounds"`
	Torch      string    `json:"torch,omitempty"`         // its version
	Skipped    string    `json:"torch_skipped,omitempty"` // why there is no torch
	Measures   []Measure `json:"measures"`
	// Hosts are one for each of [Options.Processes]; nil where the system does not tell.
	Hosts  []*Host `json:"hosts,omitempty"`
	Ratios Ratios  `json:"ratios"`
}

// Ratios compare; each is 0 where one side was not measured.
type Ratios struct {
	// LoadOfTorch is the speed of our load by that of torch's faster one.
	LoadOfTorch float64 `json:"load_of_torch"`
	// LoadOfTorchMmap is it by that of torch.load(mmap=True).
	LoadOfTorchMmap float64 `json:"load_of_torch_mmap"`
	// SaveOfTorch is the speed of our save by that of torch.save.
	SaveOfTorch float64 `json:"save_of_torch"`
	// SaveOfPlain is the speed of our save by that of a plain write.
	SaveOfPlain float64 `json:"save_of_plain"`
	// OwnOfState is the memory of its own that our load took, by the state.
	OwnOfState float64 `json:"own_of_state"`
}

// operation is one thing to measure. before, if not nil, is not measured.
type operation struct {
	Measure
	before func() error
	do     func(context.Context) (usage, error)
}

// usage is what one round took.
type usage struct {
	Seconds       float64
	Own, Resident *int64
}

// Run generates a checkpoint and measures. It ends early with ctx.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if o.Bytes < 1 {
		return nil, fmt.Errorf("a checkpoint of %d bytes cannot be measured, expected at least 1", o.Bytes)
	}
	if o.Rounds < 1 {
		o.Rounds = 3
	}
	dir, err := os.MkdirTemp("", "rejoin-bench-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil && e != nil {
			result, err = nil, e
		}
	}()
	s := generate(o.Bytes)
	r := &Result{StateBytes: s.bytes, Tensors: s.flat.Len(), Rounds: o.Rounds, Skipped: o.NoTorch}
	ops, err := ours(dir, s)
	if err != nil {
		return nil, err
	}
	if o.Python != "" {
		p, err := startPeer(ctx, o.Python, filepath.Join(dir, "state.pt"), filepath.Join(dir, "torch.pt"))
		if err != nil {
			return nil, err
		}
		defer p.end()
		r.Torch = p.version
		ops = append(ops, p.operations()...)
	} else if r.Skipped == "" {
		r.Skipped = "no interpreter with torch was given"
	}
	if err := measure(ctx, ops, o, s.bytes); err != nil {
		return nil, err
	}
	r.collect(ops)
	for _, n := range o.Processes {
		host, err := measureHost(ctx, o.Hold, filepath.Join(dir, "state.pt"), n, s.bytes)
		if err != nil {
			return nil, err
		}
		if host != nil {
			r.Hosts = append(r.Hosts, host)
		}
	}
	return r, nil
}

// measure lets all operations take turns. The first turn warms up: its time
// does not count, its memory does.
func measure(ctx context.Context, ops []*operation, o Options, size int64) error {
	total := int64(len(ops)*(o.Rounds+1)) * size
	for round := range o.Rounds + 1 {
		for i, op := range ops {
			if err := ctx.Err(); err != nil {
				return err
			}
			if op.before != nil {
				if err := op.before(); err != nil {
					return err
				}
			}
			u, err := op.do(ctx)
			if err != nil {
				return fmt.Errorf("%s %s %s: %w", op.Who, op.Operation, op.How, err)
			}
			if round == 1 || round > 1 && u.Seconds < op.Seconds {
				op.Seconds = u.Seconds
			}
			op.Own, op.Resident = most(op.Own, u.Own), most(op.Resident, u.Resident)
			if o.Progress != nil {
				o.Progress(int64(round*len(ops)+i+1)*size, total)
			}
		}
	}
	return nil
}

func most(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// ours writes the checkpoint and gives what Rejoin and a plain write do with it.
func ours(dir string, s *state) ([]*operation, error) {
	torch, safe := filepath.Join(dir, "state.pt"), filepath.Join(dir, "state.safetensors")
	saveTorch := func(f *os.File) error { return torchfile.Write(f, "state", s.object) }
	saveSafe := func(f *os.File) error { return safetensors.Write(f, s.flat, nil) }
	if err := save(torch, saveTorch); err != nil {
		return nil, err
	}
	if err := save(safe, saveSafe); err != nil {
		return nil, err
	}
	buffers := &buffers{}
	read := func(how string, load func() error) *operation {
		return &operation{Measure{Who: "rejoin", Operation: "load", How: how}, buffers.drop, local(load)}
	}
	write := func(who, how, name string, content func(*os.File) error) *operation {
		path := filepath.Join(dir, name)
		return &operation{
			Measure{Who: who, Operation: "save", How: how},
			func() error { return gone(path) },
			local(func() error { return save(path, content) }),
		}
	}
	return []*operation{
		{Measure{Who: "rejoin", Operation: "open", How: "torch file"}, nil, local(func() error { return openTorch(torch, nil, nil) })},
		read("torch file", func() error { return openTorch(torch, buffers.read, nil) }),
		read("safetensors", func() error { return openSafe(safe, buffers.read) }),
		write("rejoin", "torch file", "ours.pt", saveTorch),
		write("rejoin", "safetensors", "ours.safetensors", saveSafe),
		write("plain", "", "plain", s.writePlain),
	}, nil
}

// local measures what this process does.
func local(do func() error) func(context.Context) (usage, error) {
	return func(context.Context) (usage, error) {
		m := startMemory()
		begun := time.Now()
		if err := do(); err != nil {
			return usage{}, err
		}
		u := usage{Seconds: time.Since(begun).Seconds()}
		u.Own, u.Resident = m.grown()
		return u, nil
	}
}

func save(path string, content func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := content(f); err != nil {
		_ = f.Close() // the first error is told
		return err
	}
	return f.Close()
}

// gone removes the file of the last round: cutting an old one costs time.
func gone(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
