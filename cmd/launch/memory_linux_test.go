package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Bytes for each parameter of an Adam run: what a rank trains (value, gradient,
// two moments), and what a checkpoint holds.
const (
	replicaBytes    = 16
	checkpointBytes = 12
)

// processBytes is what a worker has beside: its program, the Go runtime, the data,
// buffers of messages.
const processBytes = 96 << 20

// largeCheckpoint trains one step of a model of as many layers of [1024, 1024],
// and gives its number of parameters and what resumes it: 1 row for each rank.
func largeCheckpoint(t *testing.T, layers int) (parameters int, resume []string) {
	t.Helper()
	const width = 1024
	dir := t.TempDir()
	var spec strings.Builder
	spec.WriteString("layers:\n")
	for i := range layers {
		fmt.Fprintf(&spec, "  - {linear: [%d, %d], name: l%d}\n", width, width, i)
	}
	spec.WriteString("loss: mse\ninput: x\ntarget: y\n")
	vector := "[0" + strings.Repeat(",1", width-1) + "]"
	row := fmt.Sprintf("{\"x\": %s, \"y\": %s}\n", vector, vector)
	model, rows := filepath.Join(dir, "model.yaml"), filepath.Join(dir, "rows.jsonl")
	for path, text := range map[string]string{model: spec.String(), rows: strings.Repeat(row, 8)} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	run(t, "--nproc", "1", "train", "--data", rows, "--model", model, "--output-dir", out,
		"--max-steps", "1", "--set", "per_device_train_batch_size=1").wants(t, 0, "training from scratch: OK")
	return layers * width * (width + 1), []string{
		"--nproc", "4", "resume", filepath.Join(out, "checkpoint-1"), "--output-dir", filepath.Join(dir, "never"),
		"--set", "save_strategy=no", "--set", "logging_steps=1", "--set", "lr_scheduler_type=constant", "--max-steps",
	}
}

// memoryOf reads a level of /proc/PID/status, in bytes.
func memoryOf(t *testing.T, pid int, level string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+level+":")
	line, _, _ := strings.Cut(rest, "kB")
	kb, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Skipf("this kernel does not tell %s", level)
	}
	return kb << 10
}

// Four ranks of a host take four replicas of their own while they train, and
// while they load none had more than its weights and moments beside the mapped
// checkpoint, whose pages they share (D24, deepspeedai/DeepSpeed#1956).
func TestFourRanksTakeFourReplicas(t *testing.T) {
	withoutRaceDetector(t)
	parameters, resume := largeCheckpoint(t, 16)
	r := start(t, append(resume, "100000000")...)
	r.waitForLine(t, "]: step ")
	own, mostOwn := 0, 4*(replicaBytes*parameters+processBytes)
	for rank := range 4 {
		pid := pidOfRank(t, r.cmd.Process.Pid, rank)
		own += memoryOf(t, pid, "RssAnon")
		peak, most := memoryOf(t, pid, "VmHWM"), 2*checkpointBytes*parameters+processBytes
		t.Logf("rank %d: %d MB at most, mapped files included", rank, peak/1e6)
		if peak > most {
			t.Errorf("rank %d held %d MB, expected at most the checkpoint's %d MB twice, as its own and mapped, and %d MiB beside",
				rank, peak/1e6, checkpointBytes*parameters/1e6, processBytes>>20)
		}
	}
	t.Logf("%d MB of their own together, of replicas of %d MB each", own/1e6, replicaBytes*parameters/1e6)
	if own > mostOwn {
		t.Errorf("4 ranks hold %d MB of their own, expected at most %d MB", own/1e6, mostOwn/1e6)
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r.wait(t)
}

// Ranks of a host that load a checkpoint have one copy of its pages, however many
// they are, beside what each has loaded (D24, deepspeedai/DeepSpeed#1956).
func TestBenchMemoryOfAHost(t *testing.T) {
	withoutRaceDetector(t)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("REJOIN_PYTHON", "no-such-python")
	e := run(t, "bench", "checkpoint", "--size", "100", "--rounds", "1", "--procs", "1,2,4", "--json")
	e.wants(t, 0)
	var result struct {
		Hosts []struct {
			Processes     int
			BesideOfState float64 `json:"beside_of_state"`
		}
	}
	if err := json.Unmarshal([]byte(e.stdout), &result); err != nil || len(result.Hosts) != 3 {
		t.Fatalf("%v, %d hosts:\n%s", err, len(result.Hosts), e.stdout)
	}
	for _, h := range result.Hosts {
		t.Logf("%d processes: %.3f × the state beside what they loaded", h.Processes, h.BesideOfState)
		if most := 1.05 + 0.02*float64(h.Processes); h.BesideOfState < 0.9 || h.BesideOfState > most {
			t.Errorf("%d processes have %.3f × the state beside what they loaded, expected at most %.2f", h.Processes, h.BesideOfState, most)
		}
	}
}

// memoryCgroup makes a control group that may hold limit bytes, and gives the
// file that takes processes in.
func memoryCgroup(t *testing.T, limit int) (procs string) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip("no control groups here: ", err)
	}
	problem := "there is no memory controller"
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		base, files := "/sys/fs/cgroup", map[string]int{"memory.max": limit, "memory.swap.max": 0}
		switch {
		case len(fields) != 3 || fields[1] != "" && fields[1] != "memory":
			continue
		case fields[1] == "memory":
			base, files = "/sys/fs/cgroup/memory", map[string]int{"memory.limit_in_bytes": limit}
		}
		dir := filepath.Join(base, fields[2], fmt.Sprintf("rejoin-test-%d-%d", os.Getpid(), limit))
		if err := os.Mkdir(dir, 0o755); err != nil {
			problem = err.Error()
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		problem = ""
		for name, value := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(value)), 0); err != nil && name != "memory.swap.max" {
				problem = err.Error()
			}
		}
		if problem == "" {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skip("a limit of memory cannot be set here, which mostly takes root: ", problem)
	return ""
}

// runCapped runs launch where it and its workers may hold limit bytes together.
func runCapped(t *testing.T, limit int, args ...string) ended {
	t.Helper()
	enter := []string{"-c", `echo $$ > "$0" && exec "$@"`, memoryCgroup(t, limit), filepath.Join(bin, "launch")}
	return startProgram(t, "/bin/sh", append(enter, args...)...).wait(t)
}

// Under a cap of four replicas four ranks resume, though the checkpoint and its
// copies would not fit beside them; where memory ends, the report says so
// (D24, deepspeedai/DeepSpeed#1956).
func TestInteropMemoryCap(t *testing.T) {
	if os.Getenv("REJOIN_INTEROP") != "1" {
		t.Skip("limits memory with a control group: set REJOIN_INTEROP=1")
	}
	withoutRaceDetector(t)
	t.Run("four replicas", func(t *testing.T) {
		parameters, resume := largeCheckpoint(t, 16)
		runCapped(t, 4*(replicaBytes*parameters+processBytes/2), append(resume, "2")...).wants(t, 0, "resume: OK")
	})
	t.Run("out of memory", func(t *testing.T) {
		e := runCapped(t, 100<<20, "--nproc", "2", "run", "tail", "/dev/zero")
		e.wants(t, 137, "failed first", "killed by SIGKILL", "the launcher did not send this SIGKILL: likely out of memory, for want of which the kernel killed",
			"this worker held up to ", "its cgroup's limit is 105 MB", "use fewer workers")
	})
}
