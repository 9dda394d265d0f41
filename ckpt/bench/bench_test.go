package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"rejoin/tensor"
)

// holdKey makes the test binary a process that holds a file.
const holdKey = "REJOIN_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdKey); path != "" {
		if err := Hold(path, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// holding is the test binary, as a process that holds a file.
func holding(ctx context.Context, path string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), holdKey+"="+path)
	return cmd
}

// Ranks of a host that load a checkpoint take one copy of its pages, however
// many they are, beside what each has loaded (D24, deepspeedai/DeepSpeed#1956).
func TestHostSharesPages(t *testing.T) {
	emptyTemp(t)
	const size = 30_000_000
	r, err := Run(t.Context(), Options{Bytes: size, Rounds: 1, Processes: []int{1, 2, 4}, Hold: holding})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Hosts) == 0 && runtime.GOOS != "linux" {
		t.Skip("this system does not tell the memory of processes")
	}
	if len(r.Hosts) != 3 {
		t.Fatalf("%d hosts", len(r.Hosts))
	}
	for _, h := range r.Hosts {
		t.Logf("%+v", *h)
		const each = 4 << 20 // of a process, whatever the file's size
		if h.Shared < r.StateBytes/2 || float64(h.Shared) > 1.05*float64(r.StateBytes) {
			t.Errorf("%d processes keep %d bytes of the file in memory, expected about the state's %d", h.Processes, h.Shared, r.StateBytes)
		}
		if raceDetector {
			continue // its own memory is several times the program's
		}
		if own := int64(h.Processes) * (r.StateBytes + each); h.Own > own || h.BesideOfState > 1.05+float64(h.Processes)*each/size {
			t.Errorf("%d processes have %d bytes of their own, expected at most %d; beside %.2f × the state", h.Processes, h.Own, own, h.BesideOfState)
		}
	}
	var text strings.Builder
	if err := r.WriteText(&text, nil); err != nil || !strings.Contains(text.String(), "loaded by 4 process(es) at once") {
		t.Errorf("%v:\n%s", err, text.String())
	}
	if _, err := measureHost(t.Context(), holding, "no.pt", 2, 1); err == nil || !strings.Contains(err.Error(), "no.pt") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// emptyTemp gives the benchmark a temporary directory that must end up empty.
func emptyTemp(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

func TestRunWithoutTorch(t *testing.T) {
	emptyTemp(t)
	var last, all int64
	r, err := Run(t.Context(), Options{Bytes: 300_000, Rounds: 2, NoTorch: "there is no interpreter", Progress: func(done, total int64) {
		if done < last || done > total {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last, all = done, total
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Measures) != 6 || r.Rounds != 2 || last != all || all != 6*3*r.StateBytes {
		t.Errorf("%d measures, %d rounds, progress %d of %d", len(r.Measures), r.Rounds, last, all)
	}
	for _, m := range r.Measures {
		if m.Seconds <= 0 || (m.GBPerSecond > 0) != (m.Operation != "open") {
			t.Errorf("%+v", m)
		}
	}
	if r.Ratios.SaveOfPlain <= 0 || r.Ratios.LoadOfTorch != 0 || r.Ratios.SaveOfTorch != 0 {
		t.Errorf("ratios %+v", r.Ratios)
	}
	var text strings.Builder
	if err := r.WriteText(&text, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GB/s", "rejoin load, safetensors", "plain write", "save: ", "torch: skipped: there is no interpreter"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "torch.load") {
		t.Errorf("torch in\n%s", text.String())
	}
}

// Scripts read these keys.
func TestJSONKeys(t *testing.T) {
	own := int64(5)
	r := &Result{StateBytes: 1e9, Tensors: 3, Rounds: 2, Torch: "2.14.1"}
	ops := []*operation{}
	for _, m := range []Measure{
		{Who: "rejoin", Operation: "open", How: "torch file", Seconds: 0.001},
		{Who: "rejoin", Operation: "load", How: "torch file", Seconds: 1, Own: &own, Resident: &own},
		{Who: "torch", Operation: "load", How: "mmap=True", Seconds: 4},
		{Who: "torch", Operation: "load", Seconds: 2},
		{Who: "torch", Operation: "save", Seconds: 3},
		{Who: "rejoin", Operation: "save", How: "torch file", Seconds: 2},
		{Who: "plain", Operation: "save", Seconds: 1.5},
	} {
		ops = append(ops, &operation{Measure: m})
	}
	r.collect(ops)
	want := Ratios{LoadOfTorch: 2, LoadOfTorchMmap: 4, SaveOfTorch: 1.5, SaveOfPlain: 0.75, OwnOfState: 5e-9}
	if r.Ratios != want {
		t.Errorf("ratios %+v, want %+v", r.Ratios, want)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const prefix = `{"state_bytes":1000000000,"tensors":3,"rounds":2,"torch":"2.14.1","measures":[` +
		`{"who":"rejoin","operation":"open","how":"torch file","seconds":0.001,"gb_per_s":0},` +
		`{"who":"rejoin","operation":"load","how":"torch file","seconds":1,"gb_per_s":1,"own_bytes":5,"resident_bytes":5},`
	const suffix = `"ratios":{"load_of_torch":2,"load_of_torch_mmap":4,"save_of_torch":1.5,"save_of_plain":0.75,"own_of_state":5e-9}}`
	if s := string(raw); !strings.HasPrefix(s, prefix) || !strings.HasSuffix(s, suffix) {
		t.Error(s)
	}
	var text strings.Builder
	if err := r.WriteText(&text, strings.ToUpper); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"WEIGHTS AND ADAM'S MOMENTS, 1.0 GB", "torch.load(mmap=True), copied", "torch.save", "unknown", "load: 4.00 × the speed of torch.load(mmap=True)", "save: 0.75 ×"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestGenerate(t *testing.T) {
	for _, size := range []int64{1, 100_000, 30_000_000} {
		s := generate(size)
		var bytes int64
		names := map[string]bool{}
		if err := tensors(s.object, func(x *tensor.Tensor) error {
			bytes += int64(len(x.Storage.Data))
			return x.Check()
		}); err != nil {
			t.Fatal(err)
		}
		for _, name := range s.flat.Names() {
			names[name] = true
		}
		parameters := int64(s.flat.Len() / 3)
		if bytes != s.bytes+4*parameters || len(names) != s.flat.Len() {
			t.Errorf("size %d: %d bytes, the object has %d in %d tensors", size, s.bytes, bytes, s.flat.Len())
		}
		if size > 100_000-1 && (s.bytes > size || s.bytes < size*2/3) {
			t.Errorf("size %d: generated %d bytes", size, s.bytes)
		}
	}
}

func TestRunEndsEarly(t *testing.T) {
	emptyTemp(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Bytes: 100_000}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := Run(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "0 bytes") {
		t.Errorf("no size: %v", err)
	}
}

// interpreter writes a program that stands in for Python.
func interpreter(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPeer(t *testing.T) {
	const hello = `echo '{"version":"9.9","operations":["open mmap=True","load mmap=True","load","save"]}'` + "\n"
	for name, tc := range map[string]struct{ script, says string }{
		"answers":        {hello + `while read op; do echo '{"seconds":0.5,"own":7}'; done`, ""},
		"ends":           {hello + `read op; echo 'MemoryError: no room' >&2; exit 1`, "MemoryError: no room"},
		"says something": {`echo Hello`, "invalid character"},
		"says nothing":   {`exit 3`, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			emptyTemp(t)
			r, err := Run(t.Context(), Options{Bytes: 100_000, Rounds: 1, Python: interpreter(t, tc.script)})
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v, expected %q", err, tc.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m := r.find("torch", "load", ""); r.Torch != "9.9" || m.Seconds != 0.5 || m.Own == nil || *m.Own != 7 || r.Skipped != "" {
				t.Errorf("%+v of %+v", m, r)
			}
		})
	}
	emptyTemp(t)
	if _, err := Run(t.Context(), Options{Bytes: 100_000, Python: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no interpreter: %v", err)
	}
}

// A peer that says nothing must not outlive its caller's patience.
func TestPeerIsStopped(t *testing.T) {
	emptyTemp(t)
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	_, err := Run(ctx, Options{Bytes: 100_000, Python: interpreter(t, "exec cat > /dev/null")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
