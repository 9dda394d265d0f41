package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"rejoin/launch"
)

// eventsVariable names a file to which launch appends what happens to its
// workers, one JSON object a line: see event. `launch harness` reads it.
const eventsVariable = "REJOIN_EVENTS"

// event is the start or the end of one worker.
type event struct {
	Event string    `json:"event"` // "start" or "exit"
	Time  time.Time `json:"time"`
	Rank  int       `json:"rank"`
	PID   int       `json:"pid"`
	// Code is the exit code as a shell tells it: 128+n after signal n.
	Code int    `json:"code,omitempty"`
	How  string `json:"how,omitempty"`
	// Declared is why the launcher took the rank for failed while it lived.
	Declared string `json:"declared,omitempty"`
}

// eventLog appends events to a file. A nil log keeps none.
type eventLog struct {
	mu   sync.Mutex
	file *os.File
	err  error // the first
}

// openEvents opens the file that the environment asks for; nil if it asks for none.
func openEvents(lookup func(string) (string, bool)) (*eventLog, error) {
	path, ok := lookup(eventsVariable)
	if !ok || path == "" {
		return nil, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", eventsVariable, err)
	}
	return &eventLog{file: file}, nil
}

// watch tells the log of the workers' starts and ends, besides whom cfg tells
// already. The workers do not inherit the variable.
func (l *eventLog) watch(cfg *launch.Config) {
	if l == nil {
		return
	}
	onStart, onExit := cfg.OnStart, cfg.OnExit
	cfg.Env = append(cfg.Env, eventsVariable+"=")
	cfg.OnStart = func(rank, pid int) {
		l.write(event{Event: "start", Rank: rank, PID: pid})
		if onStart != nil {
			onStart(rank, pid)
		}
	}
	cfg.OnExit = func(e launch.Exit) {
		code := e.Code
		if e.Signal != 0 {
			code = 128 + int(e.Signal)
		}
		l.write(event{Event: "exit", Rank: e.Rank, PID: e.PID, Code: code, How: e.How(), Declared: e.Declared})
		if onExit != nil {
			onExit(e)
		}
	}
}

func (l *eventLog) write(e event) {
	e.Time = time.Now()
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	l.err = errors.Join(l.err, err)
}

// close ends the log and reports what could not be written.
func (l *eventLog) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.err, l.file.Close()); err != nil {
		return fmt.Errorf("%s: %w", eventsVariable, err)
	}
	return nil
}
