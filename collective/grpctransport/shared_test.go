package grpctransport

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"rejoin/collective/shm"
	"rejoin/collective/wire"
)

// couple returns two connected transports and what rank 1 receives.
func couple(t *testing.T, change func(rank int, cfg *Config)) ([]*Transport, inbox) {
	t.Helper()
	box := newInbox()
	cfgs, peers := make([]Config, 2), make([]string, 2)
	for r := range cfgs {
		l, err := ListenLocal(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cfgs[r], peers[r] = Config{Rank: r, Peers: peers, Listener: l, RunID: "run"}, Address(l)
	}
	trs := make([]*Transport, 2)
	for r, cfg := range cfgs {
		if change != nil {
			change(r, &cfg)
		}
		tr, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Start([]inbox{newInbox(), box}[r]); err != nil {
			t.Fatal(err)
		}
		trs[r] = tr
	}
	t.Cleanup(func() { shut(trs) })
	<-trs[0].links[1].ready
	<-trs[1].links[0].ready
	return trs, box
}

// shut closes all transports, each waiting for the others.
func shut(trs []*Transport) {
	var all sync.WaitGroup
	for _, tr := range trs {
		all.Go(func() { _ = tr.Close(context.Background()) }) // always nil
	}
	all.Wait()
}

// post sends n bytes of one value from rank 0 to 1, and says whether they went
// through shared memory.
func post(t *testing.T, tr *Transport, n int, value byte) (shared bool) {
	t.Helper()
	m := tr.Outgoing(1, wire.Header{Kind: wire.Data, Tag: uint32(value)}, n)
	for i := range m.Payload() {
		m.Payload()[i] = value
	}
	shared = m.Shared
	if err := tr.Send(t.Context(), 1, m); err != nil {
		t.Error(err)
	}
	return shared
}

func holds(m *wire.Message, n int, v byte) bool {
	b := m.Bytes()
	return len(b) == n && bytes.Count(b, []byte{v}) == n && m.Tag == uint32(v)
}

func TestSharingIsAgreed(t *testing.T) {
	onLinux := runtime.GOOS == "linux"
	for name, tt := range map[string]struct {
		change func(rank int, cfg *Config)
		want   bool
	}{
		"both do":               {nil, onLinux},
		"the sender does not":   {func(r int, cfg *Config) { cfg.NoSharedMemory = r == 0 }, false},
		"the receiver does not": {func(r int, cfg *Config) { cfg.NoSharedMemory = r == 1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			trs, box := couple(t, tt.change)
			for i, n := range []int{0, 1, minShared - 1, minShared, shm.SlotBytes, shm.SlotBytes + 1} {
				worth := n >= minShared && n <= shm.SlotBytes
				if shared := post(t, trs[0], n, byte(i)); shared != (tt.want && worth) {
					t.Errorf("%d bytes: shared memory %v", n, shared)
				}
				m := <-box.messages
				if !holds(m, n, byte(i)) {
					t.Errorf("%d bytes arrived as %d", n, m.Len())
				}
				m.Release()
			}
		})
	}
}

// An offer that the peer cannot open, as that of a process it does not see,
// costs nothing but speed.
func TestOfferThatCannotBeOpened(t *testing.T) {
	for _, offer := range []string{"1 2147483647 3 TOKEN", "1 1 0 TOKEN", "garbage", "2 1 1 TOKEN"} {
		t.Run(offer, func(t *testing.T) {
			tr, box := running(t)
			l := openWith(t, tr, false, keyRun, "run", keyGeneration, "4", keyRank, "1", keyShared, offer)
			<-l.ready
			if l.shared != nil {
				t.Fatal("it is shared")
			}
			if err := l.send(t.Context(), wire.NewOutgoing(wire.Header{Kind: wire.Data, From: 1}, 100_000)); err != nil {
				t.Fatal(err)
			}
			m := <-box.messages
			if m.Len() != 100_000 {
				t.Errorf("%d bytes arrived", m.Len())
			}
			m.Release()
		})
	}
}

// needShared skips a test where memory cannot be shared at all.
func needShared(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("memory is shared on Linux only")
	}
}

// A peer that holds all slots gets the rest over gRPC, in order.
func TestFullRegionGoesOn(t *testing.T) {
	needShared(t)
	const n = 50_000
	trs, box := couple(t, nil)
	for i := range shm.Slots + 10 {
		if shared := post(t, trs[0], n, byte(i)); shared != (i < shm.Slots) {
			t.Errorf("message %d: shared memory %v", i, shared)
		}
	}
	var held []*wire.Message
	for i := range shm.Slots + 10 {
		held = append(held, <-box.messages)
		if !holds(held[i], n, byte(i)) {
			t.Errorf("message %d arrived as number %d with %d bytes", i, held[i].Tag, held[i].Len())
		}
	}
	for _, m := range held {
		m.Release()
	}
	if !post(t, trs[0], n, 99) {
		t.Error("slots that were given back are not used")
	}
	m := <-box.messages
	if !holds(m, n, 99) {
		t.Error("the last message is another")
	}
	m.Release()
}

// What was received stays as it is when the sender is gone, however it went.
func TestMemoryOfALostPeerStaysReadable(t *testing.T) {
	needShared(t)
	trs, box := couple(t, nil)
	const n = 100_000
	post(t, trs[0], n, 1)
	got := <-box.messages
	trs[0].links[1].cut()
	if err := <-box.lost; err == nil {
		t.Error("lost without a reason")
	}
	late := trs[0].Outgoing(1, wire.Header{Kind: wire.Data}, n)
	shut(trs)
	late.Payload()[n-1] = 7 // an operation may still be writing
	if err := trs[0].Send(t.Context(), 1, late); err == nil {
		t.Error("sent on a closed transport")
	}
	if !holds(got, n, 1) {
		t.Error("what was received has changed")
	}
	got.Release()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(maps, []byte("memfd:rejoin")) {
		t.Error("memory is still mapped when nobody uses it")
	}
}

// A peer that names a place which it was not given is cut off and reported; its
// numbers are not followed.
func TestHostilePlaces(t *testing.T) {
	needShared(t)
	for name, tt := range map[string]struct {
		share bool
		at    wire.Place
		text  string
	}{
		"slot":      {true, wire.Place{Slot: 1 << 30, Turn: 1, Len: 8}, "wrong place in shared memory: 8 bytes in slot 1073741824"},
		"length":    {true, wire.Place{Slot: 0, Turn: 1, Len: 1 << 31}, "wrong place in shared memory: 2147483648 bytes"},
		"turn":      {true, wire.Place{Slot: 0, Turn: 5, Len: 8}, "turn 5 of slot 0, expected 1"},
		"no memory": {false, wire.Place{Slot: 0, Turn: 1, Len: 8}, "of which there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			tr, box := running(t)
			l := openWith(t, tr, tt.share, keyRun, "run", keyGeneration, "4", keyRank, "1")
			<-l.ready
			m := wire.NewPlaced(wire.Header{Kind: wire.Data, From: 1}, nil, tt.at, func(bool) {})
			if err := l.send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if err := <-box.lost; !strings.Contains(err.Error(), tt.text) {
				t.Errorf("reported %v, want %q", err, tt.text)
			}
			<-l.ended
			if len(box.messages) > 0 {
				t.Error("it was delivered")
			}
		})
	}
	if _, err := resolve(nil, wire.NewIncoming(wire.Header{Shared: true}, [][]byte{make([]byte, 5)}, nil)); !errors.Is(err, wire.ErrPlace) {
		t.Errorf("a place of 5 bytes: %v", err)
	}
}

// Any goroutine may send: every message arrives as its sender filled it.
func TestManySenders(t *testing.T) {
	trs, box := couple(t, nil)
	const senders, each = 8, 40
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			for range each {
				post(t, trs[0], 4096+i*1000, byte(i))
			}
		})
	}
	var count [senders]int
	for range senders * each {
		m := <-box.messages
		if !holds(m, 4096+int(m.Tag)*1000, byte(m.Tag)) {
			t.Errorf("a message of sender %d has %d bytes or others", m.Tag, m.Len())
		}
		count[m.Tag]++
		m.Release()
	}
	all.Wait()
	for i, n := range count {
		if n != each {
			t.Errorf("%d messages of sender %d, want %d", n, i, each)
		}
	}
}
