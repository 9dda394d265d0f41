package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is also a launcher whose "program" is a list of things to do:
// say=TEXT, exit=CODE, rank=CODE (the next rank starts and ends with it), mkdir=DIR,
// wait (for a signal, and exit with 128+n), deaf (ignore SIGTERM for ever).
const fakeVariable = "REJOIN_FAKE_LAUNCH"

func TestMain(m *testing.M) {
	if os.Getenv(fakeVariable) != "" {
		os.Exit(fakeLaunch(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func fakeLaunch(args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ranks := 0
	for _, word := range args[slices.Index(args, "expand")+2:] {
		verb, value, _ := strings.Cut(word, "=")
		switch verb {
		case "say":
			fmt.Println(value)
		case "mkdir":
			if err := os.MkdirAll(value, 0o777); err != nil {
				return 99
			}
		case "exit":
			code, _ := strconv.Atoi(value)
			return code
		case "rank":
			code, _ := strconv.Atoi(value)
			for _, event := range []string{"start", "exit"} {
				if err := note(map[string]any{"event": event, "time": time.Now(), "rank": ranks, "pid": os.Getpid(), "code": code}); err != nil {
					return 98
				}
			}
			ranks++
		case "wait":
			sig := <-signals
			return 128 + int(sig.(syscall.Signal))
		case "deaf":
			select {}
		}
	}
	return 0
}

func note(event map[string]any) error {
	line, err := json.Marshal(event)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(os.Getenv(eventsVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
