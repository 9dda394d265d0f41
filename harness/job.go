package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rejoin/ckpt/hf"
)

// eventsVariable tells launch where to note the starts and ends of its workers.
const eventsVariable = "REJOIN_EVENTS"

// stopGrace is the time that a launcher gets to end its workers when the
// scenario's time is over, before it is killed.
const stopGrace = 10 * time.Second

// jobRun is a job that has ended.
type jobRun struct {
	job   *Job
	dir   string // the scenario's
	took  time.Duration
	code  int // the launcher's exit code, 128+n after signal n
	lines []Line
	ranks []Rank
	args  []string
	done  []doneInterruption
}

func (r *jobRun) output() string { return filepath.Join(r.dir, r.job.Output) }

// command is the launcher's command line for a job, without the program itself.
func (j *Job) command(launch, python string) []string {
	args := []string{"--nproc", strconv.Itoa(j.Workers)}
	if j.Command != nil {
		args = append(args, "run", "--", launch, "expand", "--")
		fill := strings.NewReplacer("{checkpoint}", j.Checkpoint, "{output}", j.Output, "{python}", python, "{scripts}", scriptsDir, "{launch}", launch)
		for _, a := range j.Command {
			args = append(args, fill.Replace(a))
		}
		return args
	}
	if j.Checkpoint != "" {
		args = append(args, "resume", j.Checkpoint)
	} else {
		args = append(args, "train")
	}
	for _, f := range []struct{ flag, value string }{
		{"--data", j.Data},
		{"--model", j.Model},
		{"--config", j.Config},
		{"--output-dir", j.Output},
		{"--map-location", j.MapLocation},
		{"--location-rules", j.LocationRules},
	} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	return append(args, j.Args...)
}

// runJob does the job's damage, runs it and awaits its end, and that of all its workers.
// The error says that the harness failed, not the job.
func (r *Runner) runJob(ctx context.Context, j *Job, dir, python string) (*jobRun, error) {
	for i := range j.Before {
		if err := j.Before[i].apply(dir); err != nil {
			return nil, fmt.Errorf("before job %s: %w", j.Name, err)
		}
	}
	events := filepath.Join(dir, j.Name+".events.jsonl")
	run := &jobRun{job: j, dir: dir, args: j.command(r.Launch, python)}
	cmd := exec.CommandContext(ctx, r.Launch, run.args...)
	cmd.Dir, cmd.Env = dir, append(environment(os.Environ()), eventsVariable+"="+events)
	cmd.SysProcAttr = processAttributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace

	begun := time.Now()
	interrupts := &interrupter{
		todo: j.During, kill: syscall.Kill,
		launcher: func() int { return cmd.Process.Pid },
		worker:   func(rank int) (int, error) { return livingWorker(events, begun, rank) },
	}
	rec := &recorder{begun: begun, watch: interrupts.see}
	stdout, stderr := &stream{to: rec}, &stream{to: rec}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	runtime.LockOSThread() // the launcher is ended with its thread: see processAttributes
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	waitErr := cmd.Wait()
	run.took = time.Since(begun)
	stdout.flush()
	stderr.flush()
	interruptErr := interrupts.finish()
	run.lines, run.done = rec.take(), interrupts.done
	run.code = exitCode(cmd.ProcessState)
	var err error
	run.ranks, err = readRanks(events, begun)
	if exit := (*exec.ExitError)(nil); waitErr != nil && !errors.As(waitErr, &exit) && ctx.Err() == nil {
		err = errors.Join(err, waitErr)
	}
	if interruptErr != nil && ctx.Err() == nil {
		err = errors.Join(err, fmt.Errorf("job %s: %w", j.Name, interruptErr))
	}
	return run, errors.Join(err, gone(run.ranks, goneAfter))
}

func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}

// livingWorker finds the process of a rank.
func livingWorker(events string, begun time.Time, rank int) (int, error) {
	ranks, err := readRanks(events, begun)
	if err != nil {
		return 0, err
	}
	for _, r := range ranks {
		if r.Rank == rank && r.End == 0 {
			return r.PID, nil
		}
	}
	return 0, fmt.Errorf("rank %d has no process to signal any more", rank)
}

// goneAfter is how long after the launcher its workers may be seen to live.
const goneAfter = 5 * time.Second

// gone returns when no worker lives, or an error that names one that does.
func gone(ranks []Rank, after time.Duration) error {
	deadline := time.NewTimer(after)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := -1
		for i, r := range ranks {
			if err := syscall.Kill(r.PID, 0); err == nil || errors.Is(err, syscall.EPERM) && r.End == 0 {
				left = i
			}
		}
		if left < 0 {
			return nil
		}
		select {
		case <-deadline.C:
			return fmt.Errorf("rank %d (pid %d) still lives %v after its launcher ended", ranks[left].Rank, ranks[left].PID, after)
		case <-tick.C:
		}
	}
}

// environment is what jobs inherit: nothing that says they belong to another job.
func environment(base []string) []string {
	var out []string
	for _, kv := range base {
		key, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(key, "PET_"), strings.HasPrefix(key, "TORCHELASTIC_"), key == eventsVariable,
			key == "RANK", key == "WORLD_SIZE", key == "LOCAL_RANK", key == "LOCAL_WORLD_SIZE",
			key == "MASTER_ADDR", key == "MASTER_PORT":
		default:
			out = append(out, kv)
		}
	}
	return append(out, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", "HF_HUB_OFFLINE=1", "TOKENIZERS_PARALLELISM=false")
}

// checkpoints are the steps of the checkpoints that a job left.
func (r *jobRun) checkpoints() ([]int, error) {
	found, err := hf.List(r.output())
	if err != nil {
		return nil, err
	}
	var steps []int
	for _, f := range found {
		steps = append(steps, f.Step)
	}
	return steps, nil
}
