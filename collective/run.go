package collective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rejoin/collective/plan"
	"rejoin/collective/wire"
)

// goneError is a peer that cannot be reached, found while sending to it or
// receiving from it.
type goneError struct {
	rank  int
	cause error
}

func (e *goneError) Error() string { return fmt.Sprintf("rank %d: %v", e.rank, e.cause) }
func (e *goneError) Unwrap() error { return e.cause }

// errEnded says that an operation's context ended while it waited.
var errEnded = errors.New("the operation's time is over")

// operate runs one operation: it claims the group, sets the deadline, and turns
// whatever goes wrong into the group's verdict.
func (g *Group) operate(ctx context.Context, fp wire.Fingerprint, body func(context.Context, wire.Fingerprint) error) error {
	if !g.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("%v: %w", fp.Op, ErrBusy)
	}
	defer g.busy.Store(false)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%v not begun: %w", fp.Op, context.Cause(ctx))
	}
	opCtx, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	fp, err := g.begin(fp, cancel)
	if err != nil {
		return err
	}
	defer g.end()
	asking := time.AfterFunc(askAfter, func() { g.ask(fp) })
	defer asking.Stop()
	if err := body(opCtx, fp); err != nil {
		return g.settle(ctx, err)
	}
	return nil
}

// begin numbers the operation, or returns the verdict if the group has failed.
func (g *Group) begin(fp wire.Fingerprint, cancel context.CancelFunc) (wire.Fingerprint, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fp.Generation, fp.Seq = g.cfg.Generation, g.current.Seq+1
	if g.verdict.final != nil {
		g.verdict.during(fp.Op.String(), fp.Seq)
		return fp, g.verdict.final
	}
	g.current, g.running, g.cancelOp = fp, true, cancel
	for rank := range g.asked {
		g.compare(rank)
	}
	return fp, nil
}

func (g *Group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running, g.cancelOp = false, nil
	g.waiting.Store(plan.Nobody)
}

// settle turns the error of an operation into the group's verdict and returns
// that. A SizeError is the exception: all ranks have it and are in step.
func (g *Group) settle(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*SizeError](err); ok {
		return err
	}
	var gone *goneError
	switch {
	case errors.As(err, &gone):
		g.lost(gone.rank, gone.cause)
	case !errors.Is(err, errEnded):
		g.fail(err, true)
	case ctx.Err() != nil:
		g.Abort(context.Cause(ctx))
	default:
		g.late(int(g.waiting.Load()))
	}
	<-g.failed // at the latest when the hearing's grace is over
	return g.err()
}

// operand is the data of an operation on this rank.
type operand interface {
	// put writes own elements of r into dst, little-endian.
	put(dst []byte, r plan.Range)
	// combine makes the value of a step from the received pieces, stores it as
	// own if asked to, and writes it to dst unless that is nil.
	combine(how plan.Combine, pieces [][]byte, r plan.Range, store bool, dst []byte)
}

// run carries out a plan.
func (g *Group) run(ctx context.Context, fp wire.Fingerprint, steps plan.Steps, data operand) error {
	size := fp.DType.Size()
	for s := range steps {
		var in, out *wire.Message
		if s.From != plan.Nobody {
			m, err := g.receive(ctx, s.From)
			if err != nil {
				return err
			}
			if err := g.check(m, fp, s); err != nil {
				m.Release()
				return err
			}
			in = m
		}
		if s.To != plan.Nobody {
			out = g.cfg.Transport.Outgoing(s.To, wire.Header{
				Kind: wire.Data, Fingerprint: fp, Tag: s.SendTag, From: uint32(g.cfg.Rank),
				Lo: uint64(s.Range.Lo), Hi: uint64(s.Range.Hi),
			}, s.Range.Len()*size)
		}
		step(data, s, in, out)
		if out != nil {
			if err := g.send(ctx, s.To, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// step computes one step's value from in, which may be nil, into out, which may
// be nil, and releases in.
func step(data operand, s plan.Step, in, out *wire.Message) {
	var dst []byte
	if out != nil {
		dst = out.Payload()
	}
	if in == nil {
		if s.Range.Len() > 0 {
			data.put(dst, s.Range)
		}
		return
	}
	if s.Range.Len() > 0 {
		data.combine(s.Combine, in.Pieces, s.Range, s.Store, dst)
	}
	in.Release()
}

// receive waits for the next message of a rank.
func (g *Group) receive(ctx context.Context, from int) (*wire.Message, error) {
	g.waiting.Store(int32(from))
	select {
	case m, ok := <-g.mail[from]:
		if !ok {
			return nil, &goneError{from, ErrPeerLeft}
		}
		return m, nil
	case <-ctx.Done():
		return nil, errEnded
	}
}

func (g *Group) send(ctx context.Context, to int, m *wire.Message) error {
	g.waiting.Store(int32(to))
	if err := g.cfg.Transport.Send(ctx, to, m); err != nil {
		if ctx.Err() != nil {
			return errEnded
		}
		return &goneError{to, err}
	}
	return nil
}

// check refuses a message that is not the one that this step expects.
func (g *Group) check(m *wire.Message, fp wire.Fingerprint, s plan.Step) error {
	mine := Call{Rank: g.cfg.Rank, Fingerprint: fp}
	theirs := Call{Rank: s.From, Fingerprint: m.Fingerprint}
	if m.Fingerprint != fp {
		return mismatch(mine, theirs)
	}
	if m.Tag != s.RecvTag || m.Lo != uint64(s.Range.Lo) || m.Hi != uint64(s.Range.Hi) {
		mine.Step = fmt.Sprintf("step %d, elements %d to %d", s.RecvTag, s.Range.Lo, s.Range.Hi)
		theirs.Step = fmt.Sprintf("step %d, elements %d to %d", m.Tag, m.Lo, m.Hi)
		return mismatch(mine, theirs)
	}
	if want := s.Range.Len() * fp.DType.Size(); m.Len() != want {
		return &goneError{s.From, fmt.Errorf("it sent %d bytes for %d elements of %v, expected %d", m.Len(), s.Range.Len(), fp.DType, want)}
	}
	return nil
}

// mismatch orders the calls by rank, so that all ranks report alike.
func mismatch(a, b Call) *MismatchError {
	if b.Rank < a.Rank {
		a, b = b, a
	}
	return &MismatchError{[2]Call{a, b}}
}
