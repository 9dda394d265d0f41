package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"rejoin/collective"
	"rejoin/collective/bench"
	"rejoin/collective/grpctransport"
	"rejoin/rendezvous"
)

// benchRank are the arguments with which launch is a rank of its own benchmark.
var benchRank = []string{"bench", "rank"}

// benchTimeout bounds the joining of a rank, and each of its operations.
const benchTimeout = time.Minute

func newBenchRank(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:    benchRank[1],
		Short:  "Be one rank of launch bench allreduce",
		Hidden: true,
		Args:   noArguments,
		RunE:   func(cmd *cobra.Command, _ []string) error { return runBenchRank(cmd.Context(), stdout) },
	}
}

// runBenchRank joins the job and takes part in one round.
func runBenchRank(ctx context.Context, stdout io.Writer) error {
	rank, err := strconv.Atoi(os.Getenv("RANK"))
	address := os.Getenv(rendezvous.AddressVariable)
	if err != nil || address == "" {
		return errors.New("bench rank: it is started by launch bench allreduce")
	}
	listener, err := grpctransport.ListenLocal(ctx)
	if err != nil {
		return err
	}
	joining, cancel := context.WithTimeout(ctx, benchTimeout)
	session, err := rendezvous.Join(joining, address, rendezvous.Member{
		RunID: os.Getenv("TORCHELASTIC_RUN_ID"), Rank: rank, PID: os.Getpid(), Addr: grpctransport.Address(listener),
	})
	cancel()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	world := session.World()
	transport, err := grpctransport.New(grpctransport.Config{
		Rank: world.Rank, Peers: world.Addrs(), Listener: listener, RunID: world.RunID, Generation: uint64(world.Generation),
	})
	if err != nil {
		return err
	}
	group, err := collective.New(collective.Config{
		Rank: world.Rank, Size: world.Size, Generation: uint64(world.Generation),
		Transport: transport, Timeout: benchTimeout, RootCause: session.RootCause,
	})
	if err != nil {
		return err
	}
	err = bench.Rank(ctx, group, stdout)
	var peer interface{ FailedRank() int }
	if errors.As(err, &peer) && peer.FailedRank() != rank {
		fmt.Fprintln(os.Stderr, err)
		err = &exitError{workerPeerFailed}
	}
	bye, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return errors.Join(err, group.Close(), session.Leave(bye))
}
