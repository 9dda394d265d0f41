package bench

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // peer.py
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

//go:embed peer.py
var peerScript string

// peerTimeout bounds the whole of what torch does, its import included.
const peerTimeout = 10 * time.Minute

// peer is a Python process that measures torch, one operation after the other.
type peer struct {
	version string
	names   []string

	over    func() error // why its time is over, if it is
	cancel  context.CancelFunc
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
	said    bytes.Buffer // on stderr; read after the process has ended
}

// peerAnswer is a line that the process writes.
type peerAnswer struct {
	Version    string   `json:"version"`
	Operations []string `json:"operations"`
	Seconds    float64  `json:"seconds"`
	Own        *int64   `json:"own"`
	Resident   *int64   `json:"resident"`
}

// startPeer starts the interpreter, which reads the file at path and writes one
// at target. The caller must call end.
func startPeer(ctx context.Context, python, path, target string) (*peer, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	p := &peer{over: ctx.Err, cancel: cancel}
	p.cmd = exec.CommandContext(ctx, python, "-c", peerScript, path, target)
	p.cmd.WaitDelay = time.Second
	p.cmd.Stderr = &p.said
	in, err := p.cmd.StdinPipe()
	if err != nil {
		p.cancel()
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.cancel()
		return nil, fmt.Errorf("%s does not start: %w", python, err)
	}
	p.in, p.answers = in, bufio.NewReader(out)
	hello, err := p.answer()
	if err != nil {
		return nil, err
	}
	p.version, p.names = hello.Version, hello.Operations
	return p, nil
}

// operations are what this version of torch can do.
func (p *peer) operations() []*operation {
	var ops []*operation
	for _, name := range p.names {
		what, how, _ := strings.Cut(name, " ")
		ops = append(ops, &operation{Measure{Who: "torch", Operation: what, How: how}, nil, func(context.Context) (usage, error) {
			if _, err := io.WriteString(p.in, name+"\n"); err != nil {
				return usage{}, p.failed(err)
			}
			a, err := p.answer()
			if err != nil {
				return usage{}, err
			}
			return usage{a.Seconds, a.Own, a.Resident}, nil
		}})
	}
	return ops
}

// answer reads a line. When it fails the process has ended.
func (p *peer) answer() (*peerAnswer, error) {
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return nil, p.failed(err)
	}
	a := &peerAnswer{}
	if err := json.Unmarshal(line, a); err != nil {
		return nil, p.failed(err)
	}
	return a, nil
}

// failed ends the process and says what it said last.
func (p *peer) failed(err error) error {
	ended := p.over()
	p.end()
	if errors.Is(ended, context.DeadlineExceeded) {
		return fmt.Errorf("torch did not end within %v: %w", peerTimeout, ended)
	}
	if ended != nil {
		return ended
	}
	lines := strings.Split(strings.TrimSpace(p.said.String()), "\n")
	return fmt.Errorf("%s ended: %s: %w", p.cmd.Path, lines[len(lines)-1], err)
}

// end lets the process end, and awaits it. A second call does nothing.
func (p *peer) end() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.in.Close() // it reads to the end of its input, and if not it is killed
	p.cancel()
	_ = p.cmd.Wait() // killed, or it had failed, which has been told
}
