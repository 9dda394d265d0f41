package main

import (
	"maps"
	"strings"
	"testing"
)

func TestReadEnvironment(t *testing.T) {
	whole := map[string]string{
		"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "0",
		"TORCHELASTIC_RUN_ID": "run", "REJOIN_RENDEZVOUS": "127.0.0.1:4000",
	}
	read := func(vars map[string]string) (environment, error) {
		return readEnvironment(func(name string) (string, bool) {
			v, ok := vars[name]
			return v, ok
		})
	}
	env, err := read(whole)
	if want := (environment{1, 2, 0, "run", "127.0.0.1:4000"}); err != nil || env != want {
		t.Fatalf("environment = %+v, %v, want %+v", env, err, want)
	}
	for name := range whole {
		vars := maps.Clone(whole)
		delete(vars, name)
		if _, err := read(vars); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "launch --nproc") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for name, value := range map[string]string{"RANK": "2", "WORLD_SIZE": "two"} {
		vars := maps.Clone(whole)
		vars[name] = value
		if _, err := read(vars); err == nil || !strings.Contains(err.Error(), value) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
