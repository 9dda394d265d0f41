package main

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"rejoin/collective"
	"rejoin/collective/grpctransport"
	"rejoin/rendezvous"
	"rejoin/trainer"
)

// Deadlines of a worker. Whether peers live is seen by heartbeats; an
// operation's deadline only ends what they cannot see, such as a rank that
// computes for ever, and must outlast the longest save.
const (
	joinTimeout      = 2 * time.Minute
	operationTimeout = 30 * time.Minute
	goodbyeTimeout   = 3 * time.Second
)

// work joins the job, forms the process group and trains. It leaves the job
// when done, and tells it why when not.
func work(s *signals, env environment) error {
	listener, err := grpctransport.ListenLocal(s.waiting)
	if err != nil {
		return err
	}
	session, err := join(s.waiting, env, listener)
	if err != nil {
		if errors.Is(context.Cause(s.waiting), errStoppedEarly) {
			err = errStoppedEarly
		}
		return errors.Join(err, listener.Close())
	}
	err = train(s.ctx, session, listener, &s.requests)
	bye, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	stopped := (*trainer.StoppedError)(nil)
	if err == nil || errors.As(err, &stopped) {
		_ = session.Leave(bye) // a launcher that does not hear it sees the exit code
		return err
	}
	if !isPeerFailure(err, env.rank) {
		_ = session.Report(bye, err.Error()) // the launcher sees the exit code in any case
	}
	return err
}

func join(ctx context.Context, env environment, l net.Listener) (*rendezvous.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	return rendezvous.Join(ctx, env.rendezvous, rendezvous.Member{
		RunID: env.runID, Generation: env.generation, Rank: env.rank, WorldSize: env.worldSize,
		PID: os.Getpid(), Addr: grpctransport.Address(l),
	})
}

// train runs the job in a group that ends as soon as the job has failed
// anywhere, or ctx ends. It owns the listener.
func train(ctx context.Context, session *rendezvous.Session, l net.Listener, requests *trainer.Requests) error {
	world := session.World()
	job, err := trainer.DecodeJob(world.Job)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	group, err := newGroup(world, session, l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		abortOnFailure(ctx, session, group)
	}()
	err = trainer.RunWithRequests(ctx, group, job, trainer.Output{Lines: os.Stdout, Warnings: os.Stderr}, requests)
	if err != nil && !together(err) {
		group.Abort(err)
	}
	cancel()
	<-watched
	return errors.Join(err, group.Close())
}

// together tells an end that every rank comes to by itself.
func together(err error) bool {
	var agreed *trainer.RankError
	var stopped *trainer.StoppedError
	return errors.As(err, &agreed) || errors.As(err, &stopped)
}

func newGroup(world rendezvous.World, session *rendezvous.Session, l net.Listener) (*collective.Group, error) {
	cfg := collective.Config{
		Rank: world.Rank, Size: world.Size, Generation: uint64(world.Generation),
		Timeout: operationTimeout, RootCause: session.RootCause,
	}
	if world.Size == 1 {
		if err := l.Close(); err != nil {
			return nil, err
		}
		return collective.New(cfg)
	}
	transport, err := grpctransport.New(grpctransport.Config{
		Rank: world.Rank, Peers: world.Addrs(), Listener: l, RunID: world.RunID, Generation: uint64(world.Generation),
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	cfg.Transport = transport
	return collective.New(cfg)
}

// abortOnFailure ends the group's operations when the job fails elsewhere or
// the launcher asks this worker to stop; it returns when ctx ends.
func abortOnFailure(ctx context.Context, session *rendezvous.Session, group *collective.Group) {
	select {
	case <-session.Failed():
		group.Abort(session.RootCause(ctx))
	case <-ctx.Done():
	}
}
