package main

import (
	"fmt"
	"strconv"

	"rejoin/rendezvous"
)

// environment is what the launcher tells a worker.
type environment struct {
	rank, worldSize int
	generation      int
	runID           string
	rendezvous      string // address of the launcher's rendezvous
}

// readEnvironment reads the variables that launch sets for every worker.
func readEnvironment(lookup func(string) (string, bool)) (environment, error) {
	var env environment
	var err error
	text := func(name string) string {
		value, ok := lookup(name)
		if (!ok || value == "") && err == nil {
			err = fmt.Errorf("environment variable %s is not set: a worker is started by launch, as in `launch --nproc 2 resume out/checkpoint-2`", name)
		}
		return value
	}
	number := func(name string) int {
		value := text(name)
		n, convErr := strconv.Atoi(value)
		if convErr != nil && err == nil {
			err = fmt.Errorf("environment variable %s: found %q, expected a number", name, value)
		}
		return n
	}
	env.rank, env.worldSize = number("RANK"), number("WORLD_SIZE")
	env.generation = number("TORCHELASTIC_RESTART_COUNT")
	env.runID = text("TORCHELASTIC_RUN_ID")
	env.rendezvous = text(rendezvous.AddressVariable)
	if err == nil && (env.rank < 0 || env.rank >= env.worldSize) {
		err = fmt.Errorf("RANK=%d is outside WORLD_SIZE=%d", env.rank, env.worldSize)
	}
	return env, err
}
