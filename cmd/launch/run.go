package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"rejoin/launch"
	"rejoin/launch/jobflags"
)

func newRun(job *jobflags.Flags, stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARGUMENTS]",
		Short: "Run any program once for each rank, under torchrun's environment",
		Long: `Run any program once for each rank, under the environment variables that
torchrun sets (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, …).
MASTER_PORT is free, for rank 0 to listen on: torch's init_process_group finds
its way with it. When one rank fails the others are ended, and the first failure
is named.`,
		Example: `  launch --nproc 2 run -- python3 train.py --epochs 3
  launch --nproc 4 --log-dir logs --redirects 3 run -- ./my-trainer`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{errors.New("run takes a program to run, as in: launch --nproc 2 run -- python3 train.py")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runProgram(cmd.Context(), job, args, stdout, stderr)
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the program is the program's
	return cmd
}

// runProgram runs args once for each rank. The programs know nothing of each
// other through us, so the survivors of a failure are ended at once.
func runProgram(ctx context.Context, flags *jobflags.Flags, args []string, stdout, stderr io.Writer) (err error) {
	job, err := flags.Resolve(jobflags.Host{Lookup: os.LookupEnv, CPUs: runtime.NumCPU(), Hostname: os.Hostname})
	if err != nil {
		return &usageError{err}
	}
	if job.MaxRestarts > 0 {
		return &usageError{errors.New("--max-restarts: launch run does not restart programs; leave it out, and start the command again after a failure")}
	}
	signals, stopSignals := launch.Notify()
	defer stopSignals()
	cfg := launch.Config{
		Program: args[0], Args: args[1:], Grace: -1,
		Stdout: stdout, Stderr: stderr, Signals: signals,
	}
	job.Apply(&cfg)
	if err := masterFromEndpoint(job, &cfg); err != nil {
		return err
	}
	events, err := openEvents(os.LookupEnv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, events.close()) }()
	events.watch(&cfg)
	report, err := launch.Run(ctx, cfg)
	if err != nil {
		return startFailure(err, args)
	}
	return finish(report, job, stderr)
}

// masterFromEndpoint takes --rdzv-endpoint for MASTER_ADDR and MASTER_PORT where
// those are not given, as torchrun's static rendezvous does.
func masterFromEndpoint(job jobflags.Job, cfg *launch.Config) error {
	if job.RdzvEndpoint == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(job.RdzvEndpoint)
	if err != nil {
		return err
	}
	if cfg.MasterAddr == "" {
		cfg.MasterAddr = host
	}
	if cfg.MasterPort == 0 {
		cfg.MasterPort, err = strconv.Atoi(port)
	}
	return err
}

// startFailure explains a program that could not be started; torchrun runs a
// script by itself, launch runs programs.
func startFailure(err error, args []string) error {
	if strings.HasSuffix(args[0], ".py") {
		err = fmt.Errorf("%w; a Python script is run by its interpreter: launch run -- python3 %s", err, strings.Join(args, " "))
	}
	if _, ok := errors.AsType[*launch.StartError](err); ok {
		return &startError{err, launch.ExitCode(err)}
	}
	return err
}

// startError is a failure to start with an exit code of its own.
type startError struct {
	err  error
	code int
}

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// finish prints the report and turns it into the launcher's exit code.
func finish(report *launch.Report, job jobflags.Job, stderr io.Writer) error {
	if report.First != nil && job.Streams == nil {
		report.First.Tail = nil // its output was shown as it came
	}
	if _, err := report.WriteTo(stderr); err != nil {
		return err
	}
	if code := report.ExitCode(); code != 0 {
		return &exitError{code}
	}
	return nil
}

// newExpand is a hidden command between launch run and a program whose
// arguments differ by rank: it puts the rank's numbers in their places.
func newExpand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "expand -- PROGRAM [ARGUMENTS]",
		Short:  "Replace {rank}, {local_rank} and {world_size} in arguments, then become the program",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return expandAndExec(args) },
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func expandAndExec(args []string) error {
	args = expandRank(args, os.Getenv)
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, args, os.Environ()))
}

// expandRank replaces the placeholders by torchrun's variables.
func expandRank(args []string, getenv func(string) string) []string {
	r := strings.NewReplacer("{rank}", getenv("RANK"), "{local_rank}", getenv("LOCAL_RANK"), "{world_size}", getenv("WORLD_SIZE"))
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = r.Replace(a)
	}
	return out
}
