package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Host is the memory of one host on which several processes have loaded the same
// file and hold it open.
type Host struct {
	Processes int `json:"processes"`
	// Own is by how much the processes' own memory grew, all together, in bytes.
	Own int64 `json:"own_bytes"`
	// Shared is how much of the file is in memory, in bytes: its pages are the
	// kernel's, and count once.
	Shared int64 `json:"shared_bytes"`
	// BesideOfState is what there is beside the loaded elements themselves, by the
	// state: 1 is the file's pages and nothing else.
	BesideOfState float64 `json:"beside_of_state"`
}

// held is what one process tells of itself; nil where the system does not tell.
type held struct {
	Own    *int64 `json:"own"`
	Mapped *int64 `json:"mapped"` // its share of the file's pages in memory
}

// Hold loads a torch file, says so on out, and holds it until in ends; at the
// first line of in it tells what memory it has. It is one process of a host
// that [Run] measures.
func Hold(path string, in io.Reader, out io.Writer) error {
	before := startMemory()
	buffers := &buffers{}
	lines := bufio.NewReader(in)
	return openTorch(path, buffers.read, func() error {
		if _, err := fmt.Fprintln(out, "loaded"); err != nil {
			return err
		}
		if _, err := lines.ReadString('\n'); err != nil {
			return err
		}
		own, _ := before.grown()
		if err := json.NewEncoder(out).Encode(held{own, mappedPages(path)}); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, lines)
		runtime.KeepAlive(buffers)
		return err
	})
}

// mappedPages is this process's share, in bytes, of the pages in memory of a file
// that it maps: a page that n processes map counts 1/n; nil where the system does
// not tell.
func mappedPages(path string) (pages *int64) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil
	}
	of, sum := false, int64(0)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case strings.Contains(name, "-"): // a mapping's first line: its addresses, …, its file
			of = strings.HasSuffix(strings.TrimSpace(line), " "+path)
		case of && name == "Pss":
			var kb int64
			if _, err := fmt.Sscan(value, &kb); err != nil {
				return nil
			}
			sum += kb << 10
			pages = &sum
		}
	}
	return pages
}

// measureHost lets n processes load the file at path at once; nil where the system
// does not tell their memory.
func measureHost(ctx context.Context, hold func(context.Context, string) *exec.Cmd, path string, n int, state int64) (host *Host, err error) {
	var all []*holder
	defer func() {
		for _, h := range all {
			err = errors.Join(err, h.end())
		}
	}()
	for range n {
		h, err := startHolder(hold(ctx, path))
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	for _, h := range all {
		if _, err := h.out.ReadString('\n'); err != nil { // it has loaded
			return nil, err
		}
	}
	host = &Host{Processes: n}
	for _, h := range all {
		if _, err := io.WriteString(h.in, "tell\n"); err != nil {
			return nil, err
		}
		line, err := h.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var one held
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, err
		}
		if one.Own == nil || one.Mapped == nil {
			return nil, nil
		}
		host.Own += *one.Own
		host.Shared += *one.Mapped
	}
	host.BesideOfState = float64(host.Own+host.Shared-int64(n)*state) / float64(state)
	return host, nil
}

// holder is a process that runs [Hold].
type holder struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said strings.Builder
}

func startHolder(cmd *exec.Cmd) (*holder, error) {
	h := &holder{cmd: cmd}
	cmd.Stderr = &h.said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.in, h.out = in, bufio.NewReader(out)
	return h, cmd.Start()
}

// end lets the process end.
func (h *holder) end() error {
	_ = h.in.Close() // what it reads ends, whether or not this is told
	if err := h.cmd.Wait(); err != nil {
		return fmt.Errorf("a process that loads the checkpoint failed: %w: %s", err, strings.TrimSpace(h.said.String()))
	}
	return nil
}
