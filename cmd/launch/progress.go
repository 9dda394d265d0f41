package main

import (
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// patience is how long work may take before a bar shows.
const patience = 2 * time.Second

// progress shows a bar for work that takes long, at a terminal only. Its
// methods are for one goroutine.
type progress struct {
	out   io.Writer // nil: nothing is shown
	what  string
	begun time.Time
	bars  *mpb.Progress
	bar   *mpb.Bar
}

func newProgress(w io.Writer, what string) *progress {
	p := &progress{what: what, begun: time.Now()}
	if isTerminal(w) {
		p.out = w
	}
	return p
}

// set shows that done of total bytes are done.
func (p *progress) set(done, total int64) {
	if p.out == nil || p.bar == nil && time.Since(p.begun) < patience {
		return
	}
	if p.bar == nil {
		p.bars = mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(60))
		p.bar = p.bars.AddBar(total,
			mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(p.what+" "), decor.CountersKiloByte("% .1f / % .1f")),
			mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)),
		)
	}
	p.bar.SetTotal(total, false)
	p.bar.SetCurrent(done)
}

// end takes the bar away and waits for it. A second call does nothing.
func (p *progress) end() {
	if p.bar == nil {
		return
	}
	p.bar.Abort(true)
	p.bars.Wait()
	p.bar, p.out = nil, nil
}
