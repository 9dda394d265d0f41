package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"rejoin/ckpt/hf"
	"rejoin/launch"
	"rejoin/launch/jobflags"
	"rejoin/rendezvous"
	"rejoin/trainer"
)

// workerPeerFailed is the worker's exit code for "another rank failed".
const workerPeerFailed = 3

// exitStopped is the exit code, the worker's and the launcher's, for "stopped by
// SIGTERM, with everything saved": EX_TEMPFAIL of sysexits.h.
const exitStopped = 75

// saveTimeout is how long workers may take, unless --shutdown-timeout says
// otherwise, from SIGTERM until they have saved.
const saveTimeout = 30 * time.Second

// stopTimeout bounds the end of the rendezvous after all workers have ended.
const stopTimeout = 2 * time.Second

// runJob resolves the request once, so that its errors print once, and runs the
// job's workers to their end.
func runJob(ctx context.Context, flags *jobflags.Flags, r *trainer.Request, stdout, stderr io.Writer) error {
	job, err := flags.Resolve(jobflags.Host{Lookup: os.LookupEnv, CPUs: runtime.NumCPU(), Hostname: os.Hostname})
	if err != nil {
		return &usageError{err}
	}
	if job.MaxRestarts > 0 {
		return &usageError{errors.New("--max-restarts: training jobs are not restarted by themselves; run launch again with resume")}
	}
	r.WorldSize = job.NProc
	task, notices, err := trainer.Resolve(r)
	for _, n := range notices {
		printNotice(stderr, n)
	}
	if wrong := (*trainer.RequestError)(nil); errors.As(err, &wrong) {
		return &usageError{err}
	} else if err != nil {
		return err
	}
	return runTask(ctx, job, task, stdout, stderr)
}

// runTask runs what a request was resolved to. No other run writes to its output
// directory meanwhile.
func runTask(ctx context.Context, job jobflags.Job, task *trainer.Job, stdout, stderr io.Writer) (err error) {
	payload, err := task.Encode()
	if err != nil {
		return err
	}
	claim, err := hf.ClaimDir(task.OutputDir)
	if claimed := (*hf.ClaimedError)(nil); errors.As(err, &claimed) {
		return fmt.Errorf("%w (--output-dir)", err)
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claim.Close()) }()
	err = runWorkers(ctx, job, payload, stdout, stderr)
	if exit := (*exitError)(nil); errors.As(err, &exit) && exit.code > 128 {
		sayHowToGoOn(stderr, task)
	}
	return err
}

// sayHowToGoOn names the newest checkpoint of a run that a signal ended.
func sayHowToGoOn(w io.Writer, task *trainer.Job) {
	found, err := hf.List(task.OutputDir)
	if err != nil || len(found) == 0 {
		return
	}
	fmt.Fprintf(w, "launch: to go on: launch --nproc %d resume %s\n", task.WorldSize, found[len(found)-1].Path)
}

func printNotice(w io.Writer, n trainer.Notice) {
	kind := ""
	if n.Warning {
		kind = "warning: "
	}
	fmt.Fprintf(w, "launch: %s%s\n", kind, n.Text)
}

// runWorkers runs the workers of a training job, and reports how they ended.
func runWorkers(ctx context.Context, job jobflags.Job, payload []byte, stdout, stderr io.Writer) (err error) {
	events, err := openEvents(os.LookupEnv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, events.close()) }()
	worker, err := launch.FindWorker()
	if err != nil {
		return err
	}
	cfg := launch.Config{
		Program: worker, Stdout: stdout, Stderr: stderr,
		PeerFailedCodes: []int{workerPeerFailed}, StoppedCode: exitStopped, KillAfter: saveTimeout,
	}
	job.Apply(&cfg)
	report, err := runRanks(ctx, job, cfg, payload, events.watch)
	if err != nil {
		return err
	}
	return finish(report, job, stderr)
}

// runRanks hosts the rendezvous and runs a job's ranks. Each of the two tells
// the other which rank has failed. watch sees the configuration at last.
func runRanks(ctx context.Context, job jobflags.Job, cfg launch.Config, payload []byte, watch func(*launch.Config)) (*launch.Report, error) {
	listener, err := listen(ctx, job)
	if err != nil {
		return nil, err
	}
	signals, stopSignals := launch.Notify()
	defer stopSignals()

	var server *rendezvous.Server
	cfg.Signals = signals
	cfg.Env = append(cfg.Env, rendezvous.AddressVariable+"="+listener.Addr().String())
	cfg.OnExit = func(e launch.Exit) {
		if !e.OK() && e.Code != exitStopped {
			server.MarkFailed(e.Rank, e.How())
		}
	}
	watch(&cfg)
	agent, err := launch.New(cfg)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	server, err = rendezvous.NewServer(rendezvous.ServerConfig{
		RunID: agent.RunID(), WorldSize: job.NProc, Job: payload, JoinTimeout: job.JoinTimeout,
		OnFailure: func(f rendezvous.Failure) { reportToAgent(agent, f) },
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	report, err := agent.Run(ctx)
	stopSignals() // from here on a signal ends the launcher, whatever it waits for
	stop, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return report, errors.Join(err, server.Stop(stop), <-served)
}

// listen takes the rendezvous' port and holds it from now on.
func listen(ctx context.Context, job jobflags.Job) (net.Listener, error) {
	endpoint := job.RdzvEndpoint
	if endpoint == "" {
		endpoint = net.JoinHostPort(launch.DefaultMasterAddr, "0")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", endpoint)
	if err != nil {
		return nil, fmt.Errorf("the rendezvous cannot listen on %s: %w; choose another --rdzv-endpoint, or leave it out for a free port", endpoint, err)
	}
	return l, nil
}

// reportToAgent tells the agent of a rank that the rendezvous found failed: one
// that is frozen, or never joined. One that reported its failure ends by itself.
func reportToAgent(agent *launch.Agent, f rendezvous.Failure) {
	switch {
	case len(f.Missing) > 0:
		agent.Fail(f.Missing[0], f.Reason)
	case f.Rank >= 0 && !f.Reported:
		agent.Fail(f.Rank, f.Reason)
	}
}
