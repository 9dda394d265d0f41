package launch

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata/*.scenario from what the machine does now")

// A scenario is a text: a command a line, each followed by what the machine
// did, indented. Commands:
//
//	ranks N [grace=1s] [kill=5s] [interrupt=700ms] [accusing=70] [stopped=75]
//	TIME exit RANK CODE | TIME die RANK SIGNAL   a worker ended
//	TIME empty RANK | TIME empty escaped         none of its children is left
//	TIME escaped                                 processes outside the groups were found
//	TIME declare RANK REASON
//	TIME signal NAME
//	TIME unsent RANK                             it had ended when the signal came
//	TIME tick                                    the next deadline must be TIME
//	verdict [out-of-memory]
func TestMachineScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.scenario")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".scenario"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, want) {
				t.Errorf("the machine did:\n%s\nexpected:\n%s", got, want)
			}
		})
	}
}

func play(t *testing.T, scenario string) []byte {
	t.Helper()
	var out bytes.Buffer
	var m *machine
	for line := range strings.Lines(scenario) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line)
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "ranks":
			m = parseRanks(t, words[1:])
		case words[0] == "verdict":
			writeVerdict(&out, m, len(words) > 1)
		default:
			for _, a := range step(t, m, words) {
				who := "rank " + strconv.Itoa(a.slot)
				if a.slot == m.nproc() {
					who = "escaped"
				}
				if a.leader {
					who += ", without children"
				}
				fmt.Fprintf(&out, "\t%s: %s\n", who, signalName(a.sig))
			}
		}
		checkInvariants(t, m, line)
	}
	return out.Bytes()
}

func parseRanks(t *testing.T, words []string) *machine {
	t.Helper()
	p := policy{
		grace: time.Second, killAfter: 5 * time.Second, interruptAfter: 700 * time.Millisecond,
		abandonAfter: 2 * time.Second, repeatAfter: 200 * time.Millisecond,
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "grace":
			p.grace = duration(t, value)
		case "kill":
			p.killAfter = duration(t, value)
		case "interrupt":
			p.interruptAfter = duration(t, value)
		case "stopped":
			p.stoppedCode = atoi(t, value)
		case "accusing":
			p.peerFailed = append(p.peerFailed, atoi(t, value))
		default:
			t.Fatalf("unknown setting %q", word)
		}
	}
	m := newMachine(atoi(t, words[0]), p)
	for rank := range m.nproc() {
		m.started(rank, 100+rank)
	}
	return m
}

func step(t *testing.T, m *machine, words []string) []action {
	t.Helper()
	now := duration(t, words[0])
	slotOf := func(word string) int {
		if word == "escaped" {
			return m.nproc()
		}
		return atoi(t, word)
	}
	switch words[1] {
	case "exit":
		return m.exited(Exit{Rank: slotOf(words[2]), Code: atoi(t, words[3]), After: now})
	case "die":
		return m.exited(Exit{Rank: slotOf(words[2]), Code: -1, Signal: signalsByName[words[3]], After: now})
	case "empty":
		m.groupGone(slotOf(words[2]))
	case "escaped":
		return m.escaped(now)
	case "declare":
		return m.declare(slotOf(words[2]), strings.Join(words[3:], " "), now)
	case "signal":
		return m.signal(signalsByName[words[2]], now)
	case "unsent":
		m.notSent(slotOf(words[2]))
	case "tick":
		if at, ok := m.next(); !ok || at != now {
			t.Errorf("%v: the next deadline is %v (%v)", words, at, ok)
		}
		return m.tick(now)
	default:
		t.Fatalf("unknown command %q", words)
	}
	return nil
}

func writeVerdict(out *bytes.Buffer, m *machine, outOfMemory bool) {
	v := judge(m, outOfMemory)
	for i, e := range v.exits {
		var marks []string
		if i == v.first {
			marks = append(marks, "first")
		}
		if v.frozen && i == v.first {
			marks = append(marks, "frozen")
		}
		if e.Collateral {
			marks = append(marks, "collateral")
		}
		fmt.Fprintf(out, "\trank %d: %s, at %s (%s)\n", e.Rank, e.fate(), e.After, strings.Join(marks, ", "))
	}
	fmt.Fprintf(out, "\tdone %v, exit code %d\n", m.done(), v.exitCode(m.policy, m.interrupted))
}

func checkInvariants(t *testing.T, m *machine, line string) {
	t.Helper()
	if m == nil {
		return
	}
	if m.waiting() && m.deadline == 0 {
		t.Errorf("%q: stage %d without a deadline", line, m.stage)
	}
	for i, s := range m.slots {
		if s.pending() && s.deadline == 0 {
			t.Errorf("%q: slot %d waits without a deadline", line, i)
		}
		ended := slices.ContainsFunc(m.exits, func(e Exit) bool { return e.Rank == i })
		if i < m.nproc() && ended == (s.stage == slotLive) {
			t.Errorf("%q: rank %d: live %v, an exit recorded %v", line, i, s.stage == slotLive, ended)
		}
	}
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Whatever happens in whatever order, if time goes on the machine comes to an end.
func FuzzMachineEnds(f *testing.F) {
	f.Add(uint8(2), []byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add(uint8(1), []byte{3, 3, 3})
	f.Fuzz(func(t *testing.T, n uint8, events []byte) {
		m := newMachine(int(n)%5+1, policy{
			grace: time.Second, killAfter: 5 * time.Second, interruptAfter: time.Second,
			abandonAfter: time.Second, repeatAfter: 200 * time.Millisecond, peerFailed: []int{3},
		})
		var now time.Duration
		for _, ev := range events {
			now += time.Duration(ev>>5) * 100 * time.Millisecond
			rank := int(ev>>3) % m.nproc()
			random(m, int(ev%8), rank, now)
			m.tick(now)
		}
		if m.stage == stageRunning {
			m.signal(syscall.SIGTERM, now)
		}
		for range 10 {
			if at, ok := m.next(); ok && !m.done() {
				now = max(now, at)
				m.tick(now)
			}
		}
		if !m.done() {
			t.Fatalf("not done at %s: %+v", now, m)
		}
		if v := judge(m, false); v.exitCode(m.policy, m.interrupted) < 0 || len(v.exits) != m.nproc() {
			t.Errorf("exit code %d, %d exits of %d ranks", v.exitCode(m.policy, m.interrupted), len(v.exits), m.nproc())
		}
	})
}

func random(m *machine, kind, rank int, now time.Duration) {
	live := m.slots[rank].stage == slotLive
	switch {
	case kind < 3 && live:
		m.exited(Exit{Rank: rank, Code: kind + kind/2, After: now})
	case kind == 3:
		m.groupGone(rank)
	case kind == 4 && m.done():
		m.escaped(now)
	case kind == 5:
		m.declare(rank, "frozen", now)
	case kind == 6:
		m.signal(syscall.SIGINT, now)
	case kind == 7:
		m.signal(syscall.SIGUSR1, now)
	}
}
