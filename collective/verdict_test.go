package collective

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"rejoin/collective/plan"
	"rejoin/collective/wire"
)

func TestVerdictFollowsTheChainOfWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		self, waitsFor int
		others         map[int]int
		want           int
	}{
		"nobody else spoke":            {0, 1, nil, 1},
		"it waits too":                 {0, 1, map[int]int{1: 2}, 2},
		"a long chain":                 {0, 1, map[int]int{1: 2, 2: 3, 5: 0}, 3},
		"a chain to itself":            {0, 1, map[int]int{1: 2, 2: 0}, 1},
		"two that wait for each other": {0, 1, map[int]int{1: 2, 2: 1}, 1},
	} {
		v := verdict{self: tt.self}
		if !v.miss(&DeadlineError{Rank: tt.waitsFor}) {
			t.Errorf("%s: no hearing", name)
		}
		for a, b := range tt.others {
			v.wait(a, b)
		}
		var d *DeadlineError
		if err := v.close(); !errors.As(err, &d) || d.Rank != tt.want {
			t.Errorf("%s: %v, want rank %d", name, err, tt.want)
		}
	}
}

func TestVerdictKeepsTheFirstEvidence(t *testing.T) {
	v := verdict{}
	if !v.lose(&PeerError{Rank: 2}) || v.lose(&PeerError{Rank: 1}) || v.miss(&DeadlineError{Rank: 3}) {
		t.Error("the first evidence opens a hearing, and only the first")
	}
	if got := failedRank(v.close(), -1); got != 2 {
		t.Errorf("blamed rank %d, want 2", got)
	}
	late := verdict{}
	late.miss(&DeadlineError{Rank: 3})
	late.lose(&PeerError{Rank: 1}) // broken by the end of the operation itself
	if got := failedRank(late.close(), -1); got != 3 {
		t.Errorf("blamed rank %d, want 3", got)
	}
	if !v.decide(ErrClosed) || v.decide(ErrBusy) || !errors.Is(v.final, ErrClosed) || v.lose(&PeerError{}) {
		t.Error("a verdict is final")
	}
}

// What one rank decides, the others must report alike.
func TestNoticesRoundTrip(t *testing.T) {
	call := func(r int) Call {
		return Call{Rank: r, Fingerprint: wire.Fingerprint{Seq: 7, Op: wire.AllReduceSum, DType: wire.Float32, Length: uint64(10 + r)}}
	}
	for _, err := range []error{
		&PeerError{Rank: 2, Op: "barrier", Seq: 3, Cause: errors.New("connection reset")},
		&DeadlineError{Rank: 1, Op: "barrier", Seq: 3, After: time.Minute},
		mismatch(call(3), call(0)),
	} {
		b, e := noticeOf(err, 0).encode()
		if e != nil {
			t.Fatal(e)
		}
		n, e := decodeNotice(b, 4)
		if e != nil {
			t.Fatal(e)
		}
		if got := errorOf(n, "barrier", 3); got.Error() != err.Error() || reflect.TypeOf(got) != reflect.TypeOf(err) {
			t.Errorf("%T %v became %T %v", err, err, got, got)
		}
	}
	aborted := noticeOf(&abortError{"barrier", 3, errors.New("rank 1 was killed")}, 2)
	if p := aborted.Peer; p == nil || p.Cause != "rank 1 was killed" {
		t.Errorf("a rank that gives up tells %+v, expected the cause alone", p)
	}
	long := noticeOf(errors.New(strings.Repeat("x", 1<<20)), 1)
	if b, err := long.encode(); err != nil || len(b) > maxNotice {
		t.Errorf("a long reason makes a notice of %d bytes, %v", len(b), err)
	}
}

func FuzzDecodeNotice(f *testing.F) {
	for _, n := range []notice{
		{Call: &callNotice{}},
		{Waits: &waitNotice{1}},
		noticeOf(ErrClosed, 0), noticeOf(&DeadlineError{}, 0),
		{Mismatch: &MismatchError{}},
	} {
		b, err := n.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeNotice(b, 4)
		if err != nil {
			if !errors.Is(err, errNotice) {
				t.Errorf("%v is no errNotice", err)
			}
			return
		}
		if n.Call == nil && n.Waits == nil {
			if r := failedRank(errorOf(n, "", 0), 0); r < 0 || r >= 4 {
				t.Errorf("rank %d of 4", r)
			}
		}
		if _, err := json.Marshal(n); err != nil {
			t.Error(err)
		}
	})
}

// Received pieces may be cut anywhere and lie anywhere.
func TestFloatsFromPiecesOfAnyShape(t *testing.T) {
	got := []float32{1.5, -2, float32(math.Inf(1)), 1e-40}
	whole := make([]byte, 16)
	(&floats{got, 1}).put(whole, plan.Range{Lo: 0, Hi: 4})
	for cut := range 17 {
		for shift := range 4 {
			room := make([]byte, 40)
			a := append(room[shift:shift:20], whole[:cut]...)
			b := append(room[20+shift:20+shift:40], whole[cut:]...)
			own := []float32{1, 1, 1, 1}
			(&floats{own, 0.5}).combine(plan.AddLeft, [][]byte{a, b}, plan.Range{Lo: 0, Hi: 4}, true, nil)
			for i := range own {
				if want := got[i] + 0.5; own[i] != want {
					t.Fatalf("cut %d shift %d: element %d is %g, want %g", cut, shift, i, own[i], want)
				}
			}
		}
	}
}

// Storing and sending are independent, for every way to combine.
func TestFloatsCombine(t *testing.T) {
	in := make([]byte, 8)
	(&floats{[]float32{10, 20}, 1}).put(in, plan.Range{Lo: 0, Hi: 2})
	for how, want := range map[plan.Combine][2]float32{
		plan.AddLeft: {12, 23}, plan.AddRight: {12, 23}, plan.Replace: {10, 20}, plan.Own: {4, 6},
	} {
		for _, store := range []bool{true, false} {
			own := []float32{9, 4, 6}
			dst := make([]byte, 8)
			(&floats{own, 0.5}).combine(how, [][]byte{in}, plan.Range{Lo: 1, Hi: 3}, store, dst)
			if sent := view(dst); sent[0] != want[0] || sent[1] != want[1] {
				t.Errorf("%d: sent %v, want %v", how, sent, want)
			}
			kept := [2]float32{own[1], own[2]}
			if store && kept != want || !store && kept != [2]float32{4, 6} || own[0] != 9 {
				t.Errorf("%d store=%v: own is %v", how, store, own)
			}
		}
	}
}

func BenchmarkReduce(b *testing.B) {
	const n = 64 << 10
	own, in := make([]float32, n), make([]byte, 4*n)
	for name, scale := range map[string]float32{"sum": 1, "mean": 0.5} {
		b.Run(name, func(b *testing.B) {
			f := &floats{own, scale}
			for b.Loop() {
				f.combine(plan.AddLeft, [][]byte{in}, plan.Range{Lo: 0, Hi: n}, true, nil)
			}
			b.ReportMetric(4*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
		})
	}
}
