package rendezvous

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the expected lines of the scenarios in testdata")

// TestScenarios plays testdata/*.txt. A line is a time and an event; the lines
// below it that begin with "-> " say what changed, and are compared (or, with
// -update, rewritten). The first line sets up the core.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal([]byte(got), want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

var epoch = time.Unix(1_000_000, 0)

// play runs a scenario and returns it with its outcomes.
func play(t *testing.T, text string) string {
	t.Helper()
	var c *core
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "-> ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if f[0] == "world" {
			c = newCore(setup(t, f), epoch)
			continue
		}
		offset, err := time.ParseDuration(f[0])
		if err != nil {
			t.Fatal(err)
		}
		apply(t, c, epoch.Add(offset), f[1:], &out)
	}
	return out.String()
}

func setup(t *testing.T, f []string) ServerConfig {
	t.Helper()
	cfg := ServerConfig{RunID: "job", Generation: 2, WorldSize: number(t, f[1])}
	for i, d := range []*time.Duration{&cfg.JoinTimeout, &cfg.HeartbeatTimeout} {
		v, err := time.ParseDuration(f[3+2*i])
		if err != nil {
			t.Fatal(err)
		}
		*d = v
	}
	return cfg
}

// apply carries out one event and writes what it changed.
func apply(t *testing.T, c *core, now time.Time, f []string, out *strings.Builder) {
	t.Helper()
	complete, failed, finished := c.complete, c.failure != nil, c.finished()
	rest := ""
	rank := 0
	if len(f) > 1 {
		rank, rest = number(t, f[1]), strings.Join(f[2:], " ")
	}
	switch f[0] {
	case "hello":
		m := Member{RunID: "job", Generation: 2, Rank: rank, PID: 100 + rank, Addr: "a" + f[1]}
		for _, change := range f[2:] {
			k, v, _ := strings.Cut(change, "=")
			switch k {
			case "run":
				m.RunID = v
			case "generation":
				m.Generation = number(t, v)
			case "world":
				m.WorldSize = number(t, v)
			case "pid":
				m.PID = number(t, v)
			}
		}
		if err := c.hello(now, m); err != nil {
			fmt.Fprintf(out, "-> refused: %v\n", err)
		}
	case "heartbeat":
		c.heartbeat(now, rank)
	case "report":
		c.report(now, rank, rest)
	case "broken":
		c.broken(now, rank, "connection broke")
	case "exited":
		c.markFailed(now, rank, rest)
	case "leave":
		c.leave(now, rank)
	case "tick":
		c.tick(now)
	default:
		t.Fatalf("unknown event %q", f[0])
	}
	if !complete && c.complete {
		fmt.Fprintln(out, "-> world complete")
	}
	if !failed && c.failure != nil {
		fmt.Fprintf(out, "-> failure at %v: %v\n", c.failure.When.Sub(epoch), *c.failure)
	}
	if !finished && c.finished() {
		fmt.Fprintln(out, "-> finished")
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every refusal must survive the wire as the same type with the same text.
func TestRefusalsRoundTrip(t *testing.T) {
	m := Member{RunID: "mine", Generation: 1, Rank: 4, WorldSize: 3, PID: 9}
	for _, err := range []error{
		&StaleJobError{RunID: "mine", ServerRunID: "theirs", Generation: 1, ServerGeneration: 8},
		&StaleJobError{RunID: "mine", ServerRunID: "mine", Generation: 1, ServerGeneration: 1, Ended: true},
		&WorldError{4, 3, 2},
		&DuplicateRankError{4, 9, 77},
		&JoinTimeoutError{[]int{1, 3}, 30 * time.Second},
	} {
		got := errorOf(downRefused(err).GetRefused(), m)
		if fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", err, err) {
			t.Errorf("%T %v became %T %v", err, err, got, got)
		}
	}
	if got := errorOf(downRefused(errors.New("protocol 9")).GetRefused(), m); !strings.Contains(got.Error(), "protocol 9") {
		t.Errorf("got %v", got)
	}
	f := Failure{Rank: 3, PID: 12, Reason: "exit code 7", When: time.Unix(5, 6)}
	if got := failureOf(downRefused(&PeerFailedError{f}).GetFailure()); got.String() != f.String() || !got.When.Equal(f.When) {
		t.Errorf("got %+v, want %+v", got, f)
	}
}

func TestTexts(t *testing.T) {
	many := make([]int, 20)
	for got, want := range map[string]string{
		Failure{Rank: Launcher, Reason: "gone"}.String():  "the launcher: gone",
		Failure{Rank: 1, Reason: "gone"}.String():         "rank 1: gone",
		Failure{Rank: 1, PID: 5, Reason: "gone"}.String(): "rank 1 (pid 5): gone",
		list(nil):                       "none",
		list([]int{1, 3}):               "1, 3",
		list(many)[len(list(many))-10:]: "and 4 more",
		(&UnreachableError{"h:1", errors.New("connection refused")}).Error(): "no rendezvous server at h:1: connection refused; the launcher may have ended, or the address is of an earlier start",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
