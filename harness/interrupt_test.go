package harness

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// sent notes the signals that an interrupter sends.
type sent struct {
	at time.Time

	mu   sync.Mutex
	list []string
}

func (s *sent) kill(pid int, sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, fmt.Sprintf("%v %d %v", time.Since(s.at), pid, sig))
	return nil
}

func newInterrupter(s *sent, todo ...Interruption) *interrupter {
	return &interrupter{
		todo: todo, kill: s.kill, launcher: func() int { return 7 },
		worker: func(rank int) (int, error) {
			if rank > 1 {
				return 0, errors.New("rank 2 has no process")
			}
			return 100 + rank, nil
		},
	}
}

func TestInterruptionsAreDoneInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sent{at: time.Now()}
		i := newInterrupter(
			s,
			Interruption{When: "step 2", Do: "stop", Rank: new(1), For: Duration(time.Second)},
			Interruption{When: "step 4", Do: "kill", Rank: new(0)},
			Interruption{When: "step 4", Do: "interrupt"},
		)
		for _, text := range []string{"step 4/9", "step 2/9", "step 3/9"} {
			i.see(Line{Text: text})
		}
		<-time.After(2 * time.Second) // of the bubble's clock
		i.see(Line{Text: "step 4/9"})
		i.see(Line{Text: "step 4/9 again"})
		if err := i.finish(); err != nil {
			t.Error(err)
		}
		want := []string{"0s 101 stopped (signal)", "1s 101 continued", "2s 100 killed", "2s 7 interrupt"}
		if !reflect.DeepEqual(s.list, want) {
			t.Errorf("sent %q, expected %q", s.list, want)
		}
	})
}

func TestFinishDoesNotAwaitAStoppedWorkerThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sent{at: time.Now()}
		i := newInterrupter(s, Interruption{When: "go", Do: "stop", Rank: new(0), For: Duration(time.Hour)})
		i.see(Line{Text: "go"})
		if err := i.finish(); err != nil || time.Since(s.at) > 0 || len(s.list) != 1 {
			t.Errorf("after %v: %v, sent %q", time.Since(s.at), err, s.list)
		}
	})
}

func TestWhatCouldNotBeDoneIsSaid(t *testing.T) {
	i := newInterrupter(&sent{}, Interruption{When: "never", Do: "kill", Rank: new(1)}, Interruption{When: "nor this", Do: "interrupt"})
	i.see(Line{Text: "step 1"})
	err := i.finish()
	if err == nil || !strings.Contains(err.Error(), `kill rank 1: not done, for no line with "never" came`) || !strings.Contains(err.Error(), "interrupt the launcher") {
		t.Errorf("error %v", err)
	}
	i = newInterrupter(&sent{}, Interruption{When: "a", Do: "kill", Rank: new(2)})
	i.see(Line{Text: "a"})
	if err := i.finish(); err == nil || !strings.Contains(err.Error(), "rank 2 has no process") {
		t.Errorf("error %v", err)
	}
}

func TestRecorderKeepsWholeLines(t *testing.T) {
	var seen []string
	r := &recorder{begun: time.Now(), watch: func(l Line) { seen = append(seen, l.Text) }}
	s := &stream{to: r}
	for _, part := range []string{"[rank1]: hal", "f\nlaunch: x\n[rank10]: bar\r", "[rank]: odd\n\n", "end \xff"} {
		if n, err := s.Write([]byte(part)); err != nil || n != len(part) {
			t.Fatal(n, err)
		}
	}
	s.flush()
	var got []string
	for _, l := range r.take() {
		got = append(got, fmt.Sprint(l.Rank, " ", l.Text))
	}
	want := []string{"1 half", "-1 launch: x", "10 bar", "-1 [rank]: odd", "-1 end \uFFFD"}
	if !reflect.DeepEqual(got, want) || len(seen) != len(want) {
		t.Errorf("lines %q, expected %q", got, want)
	}
}

func TestRecorderIsBounded(t *testing.T) {
	r := &recorder{begun: time.Now(), watch: func(Line) {}}
	s := &stream{to: r}
	for range maxLines + 5 {
		s.Write([]byte("x\n"))
	}
	if len(r.take()) != maxLines || r.lost != 5 {
		t.Errorf("%d lines kept, %d lost", len(r.lines), r.lost)
	}
	s.Write(make([]byte, maxPending+10))
	if len(s.pending) > maxPending {
		t.Errorf("a line of %d bytes is held", len(s.pending))
	}
}
