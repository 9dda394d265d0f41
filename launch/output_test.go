package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSplitter(t *testing.T) {
	tests := []struct {
		name string
		in   []string
		want string
	}{
		{"lines", []string{"a\nb\n"}, "> a\n> b\n"},
		{"a line in parts", []string{"a", "b", "c\nd"}, "> abc\n> d\n"},
		{"empty lines", []string{"\n\n"}, "> \n> \n"},
		{"nothing", nil, ""},
		{"progress bar", []string{"1%\r2%\r", "3%\n"}, "> 1%\r> 2%\r> 3%\n"},
		{"CR LF", []string{"a\r\nb\r", "\nc"}, "> a\r\n> b\r\n> c\n"},
		{"a last CR", []string{"50%\r"}, "> 50%\r\n"},
		{"invalid UTF-8 and NUL", []string{"\xff\xfe\x00\n"}, "> \xff\xfe\x00\n"},
		{"too long", []string{"0123456789", "abcdef", "\nx\n"}, "> 0123456789abcdef\n> \n> x\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := splitter{prefix: []byte("> "), max: 16}
			var got []byte
			for _, in := range tt.in {
				got = append(got, s.feed([]byte(in))...)
			}
			got = append(got, s.flush()...)
			if string(got) != tt.want {
				t.Errorf("got %q, expected %q", got, tt.want)
			}
		})
	}
}

// However the bytes arrive, the output without its prefixes is the input.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("a\nb\r\nc\rd"), uint8(3))
	f.Add([]byte("\r\r\n\n"), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		const prefix = "\x01PREFIX\x02"
		if bytes.Contains(in, []byte(prefix)) {
			t.Skip()
		}
		s := splitter{prefix: []byte(prefix), max: 1 << 20}
		var got []byte
		for rest := in; len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			got = append(got, s.feed(rest[:n])...)
			rest = rest[n:]
		}
		got = append(got, s.flush()...)
		bare := bytes.ReplaceAll(got, []byte(prefix), nil)
		want := in
		if len(in) > 0 && in[len(in)-1] != '\n' {
			want = append(bytes.Clone(in), '\n')
		}
		if !bytes.Equal(bare, want) {
			t.Errorf("%q came out as %q", want, bare)
		}
		for line := range bytes.SplitSeq(bytes.TrimSuffix(got, []byte("\n")), []byte("\n")) {
			if len(got) > 0 && !bytes.HasPrefix(line, []byte(prefix)) {
				t.Errorf("the line %q has no prefix", line)
			}
		}
	})
}

func BenchmarkSplitter(b *testing.B) {
	chunk := bytes.Repeat([]byte("{'loss': 0.6931, 'grad_norm': 1.2345, 'learning_rate': 5e-05}\n"), 1000)
	s := splitter{prefix: []byte("[rank0]: "), max: maxLine}
	for b.Loop() {
		s.feed(chunk)
	}
	b.ReportMetric(float64(len(chunk))*float64(b.N)/b.Elapsed().Seconds()/1e6, "MB/s")
}

func TestTail(t *testing.T) {
	var tl tail
	for i := range 100 {
		tl.add(fmt.Appendf(nil, "line %d\n", i))
	}
	got := tl.lines()
	if len(got) != tailLines || got[0] != "line 80" || got[tailLines-1] != "line 99" {
		t.Errorf("got %q", got)
	}
	tl.add(bytes.Repeat([]byte("x"), 3*tailBytes))
	tl.add([]byte("\n 10%\r 20%\r\nbad \xff\n\n\n"))
	got = tl.lines()
	if n := len(got); n != 3 || got[1] != " 20%" || got[2] != "bad \uFFFD" || len(tl.buf) > tailBytes {
		t.Errorf("got %d lines ending in %q, %d bytes", n, got[1:], len(tl.buf))
	}
}

func TestLinesStayWhole(t *testing.T) {
	const nproc, lines = 4, 2000
	f := newFixture(nproc, fmt.Sprintf("lines=%d", lines), "err=done")
	f.Stderr = &f.out // one destination, as a terminal is
	wantCode(t, f.run(t), 0)
	whole := regexp.MustCompile(`^\[rank(\d)\]: (\d+ of (\d)|done)$`)
	next := [nproc]int{}
	for line := range strings.Lines(f.out.String()) {
		m := whole.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil || m[3] != "" && m[3] != m[1] {
			t.Fatalf("a broken line: %q", line)
		}
		if m[3] != "" {
			rank := atoi(t, m[1])
			if n, _, _ := strings.Cut(m[2], " "); atoi(t, n) != next[rank] {
				t.Fatalf("rank %d: line %q, expected number %d", rank, line, next[rank])
			}
			next[rank]++
		}
	}
	for rank, n := range next {
		if n != lines {
			t.Errorf("rank %d: %d lines, expected %d", rank, n, lines)
		}
	}
}

func TestOddOutputIsKept(t *testing.T) {
	f := newFixture(2, "huge=1048576", `raw=\xff\x00 10%\r 20%\r\ntail without end`)
	f.Prefix = func(rank int) string { return fmt.Sprintf("node7:%d: ", rank) }
	wantCode(t, f.run(t), 0)
	var got [2]string // what each rank wrote, put together again
	for _, piece := range strings.Split(f.out.String(), "node7:")[1:] {
		rank, rest, _ := strings.Cut(piece, ": ")
		got[atoi(t, rank)] += rest
	}
	for rank := range 2 {
		want := strings.Repeat(strconv.Itoa(rank), 1<<20) + "\n\xff\x00 10%\r 20%\r\ntail without end\n"
		if got[rank] != want {
			t.Errorf("rank %d: %d bytes ending in %q, expected %d ending in %q", rank,
				len(got[rank]), got[rank][max(0, len(got[rank])-40):], len(want), want[len(want)-40:])
		}
	}
}

func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	path := fifo(t)
	f := newFixture(2, "0:out=x", "0:catch=TERM,0", `raw=a\rb\n`, "err=e", "0:hold="+path, "1:meet="+path, "1:exit=1", "block")
	f.LogDir, f.RunID, f.RestartCount = filepath.Join(dir, "logs"), "my/job", 3
	f.Streams = func(rank int) (show, keep Streams) {
		if rank == 0 {
			return StderrOnly, AllStreams
		}
		return NoStreams, StdoutOnly
	}
	r := f.run(t)
	wantCode(t, r, 1)
	if filepath.Dir(r.LogDir) != f.LogDir || !strings.HasPrefix(filepath.Base(r.LogDir), "my_job_") {
		t.Errorf("logs in %s, expected %s/my_job_…", r.LogDir, f.LogDir)
	}
	attempt := filepath.Join(r.LogDir, "attempt_3")
	for name, want := range map[string]string{"1/stdout.log": "a\rb\n", "0/stderr.log": "e\n", "0/stdout.log": "x\na\rb\n"} {
		got, err := os.ReadFile(filepath.Join(attempt, name))
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s: %q, %v; expected %q", name, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(attempt, "1/stderr.log")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("rank 1's stderr was kept against the wish: %v", err)
	}
	if f.out.String() != "" || f.err.String() != "[rank0]: e\n" {
		t.Errorf("shown: stdout %q, stderr %q", f.out.String(), f.err.String())
	}
	if got := r.First.Tail; len(got) != 1 || got[0] != "e" {
		t.Errorf("tail of a stream that was not shown: %q", got)
	}
}

// brokenWriter fails, or blocks until released.
type brokenWriter struct{ release chan struct{} }

var errBroken = errors.New("no space left")

func (w brokenWriter) Write([]byte) (int, error) {
	if w.release != nil {
		<-w.release
	}
	return 0, errBroken
}

func TestBrokenOutputDoesNotStopTheJob(t *testing.T) {
	f := newFixture(2, "lines=20000")
	f.Stdout = brokenWriter{}
	r := f.run(t)
	wantCode(t, r, 0)
	if !errors.Is(r.OutputErr, errBroken) || !strings.Contains(text(t, r), "output was lost: no space left") {
		t.Errorf("output error %v; report:\n%s", r.OutputErr, text(t, r))
	}
}

func TestStuckReaderOfTheOutputIsGivenUpAfterASignal(t *testing.T) {
	w := brokenWriter{release: make(chan struct{})}
	defer close(w.release)
	f := newFixture(1, "out=x", "err=ready", "block")
	f.Stdout, f.Stderr = w, nil
	started := make(chan struct{})
	f.OnStart = func(int, int) { close(started) }
	run := f.start(t)
	<-started
	f.signals <- os.Interrupt
	r := run.wait(t)
	wantCode(t, r, 130)
	if r.OutputErr != nil && !errors.Is(r.OutputErr, ErrOutputStalled) {
		t.Errorf("output error %v", r.OutputErr)
	}
}
