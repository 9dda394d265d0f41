package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestRunGivesTorchrunsEnvironment(t *testing.T) {
	e := run(t, "--nproc", "2", "--rdzv-endpoint", "127.0.0.1:0", "run", "--", "sh", "-c", `echo "$RANK/$WORLD_SIZE at $MASTER_ADDR" "$@"`, "name", "--nproc", "7")
	e.wants(t, 0, "[rank0]: 0/2 at 127.0.0.1 --nproc 7\n", "[rank1]: 1/2 at 127.0.0.1 --nproc 7\n")
}

func TestRunNamesTheFirstFailureAndEndsTheOthers(t *testing.T) {
	e := run(t, "--nproc", "3", "run", "--", "sh", "-c", `[ $RANK = 1 ] && exit 7; exec sleep 60`)
	e.wants(t, 7, "rank 1 (pid ", "failed first", "ranks 0, 2: ended by the launcher with SIGTERM")
}

func TestRunRefuses(t *testing.T) {
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"run", 2, "run takes a program"},
		{"--max-restarts 1 run -- true", 2, "--max-restarts: launch run does not restart programs"},
		{"run -- no-such-program", 127, "no-such-program"},
		{"run -- train.py --lr 1", 127, "launch run -- python3 train.py --lr 1"},
		{"run -- testdata/regression.jsonl", 126, "permission denied"},
		{"--nproc 0 run -- true", 2, "nproc"},
	} {
		run(t, strings.Fields(tc.args)...).wants(t, tc.code, tc.says)
	}
}

func TestEventsTellStartsAndEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	t.Setenv(eventsVariable, path)
	run(t, "--nproc", "2", "run", "--", "sh", "-c", `[ -z "$REJOIN_EVENTS" ] || exit 9; [ $RANK = 0 ] || kill -9 $$`).wants(t, 137)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[int]int{}
	starts := 0
	for line := range strings.Lines(string(text)) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.PID == 0 || e.Time.IsZero() {
			t.Fatalf("%s: %v", line, err)
		}
		if e.Event == "start" {
			starts++
		} else {
			codes[e.Rank] = e.Code
		}
	}
	if want := map[int]int{0: 0, 1: 128 + int(syscall.SIGKILL)}; starts != 2 || (codes[1] != want[1]) || len(codes) != 2 {
		t.Errorf("%d starts, exit codes %v, expected %v\n%s", starts, codes, want, text)
	}
	t.Setenv(eventsVariable, filepath.Join(path, "below-a-file"))
	run(t, "run", "--", "true").wants(t, 1, eventsVariable)
}

func TestExpandRank(t *testing.T) {
	env := map[string]string{"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}
	got := expandRank([]string{"a{rank}", "{local_rank}/{world_size}", "{other}"}, func(k string) string { return env[k] })
	if want := []string{"a3", "1/4", "{other}"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

func TestEnv(t *testing.T) {
	t.Setenv("REJOIN_PYTHON", filepath.Join(t.TempDir(), "none"))
	t.Setenv("OMP_NUM_THREADS", "3")
	run(t, "env").wants(t, 0, "rejoin        0.", "cores ", "blas ", "python        none: ", "OMP_NUM_THREADS=3", "problem")
	e := run(t, "env", "--json")
	var d struct {
		Rejoin, BLAS, Platform string
		Cores                  int
		Problems               []string
	}
	if err := json.Unmarshal([]byte(e.stdout), &d); err != nil || d.Rejoin == "" || d.BLAS == "" || d.Cores < 1 || d.Problems == nil {
		t.Errorf("%+v, %v", d, err)
	}
}

// torch's own process group forms in programs that launch run starts.
const torchProgram = `
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.full((1, 2), float(rank))).sum().backward()
print("mean gradient", model.module.weight.grad.flatten().tolist(), flush=True)
dist.barrier()
`

func TestInteropRunFormsTorchsGroup(t *testing.T) {
	python := os.Getenv("REJOIN_PYTHON")
	if python == "" {
		t.Skip("needs torch: set REJOIN_PYTHON to an interpreter that has it")
	}
	run(t, "--nproc", "2", "run", "--", python, "-c", torchProgram).wants(t, 0,
		"[rank0]: mean gradient [0.5, 0.5]", "[rank1]: mean gradient [0.5, 0.5]")
}
