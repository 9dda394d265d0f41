package launch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the fake worker: started with fakeKey in its
// environment, it carries out the operations among its arguments. "1:exit=7" is
// for rank 1 only, "exit=7" for all.
const fakeKey = "REJOIN_TEST_FAKE_WORKER"

func TestMain(m *testing.M) {
	switch os.Getenv(fakeKey) {
	case "":
		heedSignals()
		os.Exit(m.Run())
	case "launcher":
		os.Exit(fakeLauncher(os.Args[1:]))
	default:
		fakeWorker(os.Args[1:])
	}
}

// heedSignals undoes what nohup, or a shell's background job, did to the test
// itself: signals that are ignored at the start stay ignored in all children.
func heedSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

var signalsByName = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP,
	"USR1": syscall.SIGUSR1, "SEGV": syscall.SIGSEGV, "ABRT": syscall.SIGABRT, "STOP": syscall.SIGSTOP, "QUIT": syscall.SIGQUIT, "USR2": syscall.SIGUSR2,
}

func fakeWorker(ops []string) {
	for _, op := range ops {
		if rank, rest, ok := strings.Cut(op, ":"); ok {
			if _, err := strconv.Atoi(rank); err == nil {
				if rank != os.Getenv("RANK") {
					continue
				}
				op = rest
			}
		}
		name, arg, _ := strings.Cut(op, "=")
		fakeOp(name, arg)
	}
}

func fakeOp(name, arg string) {
	switch name {
	case "out":
		fmt.Println(arg)
	case "raw": // a Go-quoted string, as it is
		text, err := strconv.Unquote(`"` + arg + `"`)
		must(err)
		_, err = os.Stdout.WriteString(text)
		must(err)
	case "err":
		fmt.Fprintln(os.Stderr, arg)
	case "huge":
		n, err := strconv.Atoi(arg)
		must(err)
		_, err = os.Stdout.Write(append(bytes.Repeat([]byte(os.Getenv("RANK")), n), '\n'))
		must(err)
	case "lines":
		n, err := strconv.Atoi(arg)
		must(err)
		for i := range n {
			fmt.Printf("%d of %s\n", i, os.Getenv("RANK"))
		}
	case "env":
		for key := range strings.SplitSeq(arg, ",") {
			value, ok := os.LookupEnv(key)
			if !ok {
				value = "(unset)"
			}
			fmt.Println(key + "=" + value)
		}
	case "errorfile":
		must(os.WriteFile(os.Getenv("TORCHELASTIC_ERROR_FILE"), []byte(arg), 0o600))
	case "exit":
		code, err := strconv.Atoi(arg)
		must(err)
		os.Exit(code)
	case "kill":
		must(syscall.Kill(os.Getpid(), signalsByName[arg]))
		block()
	case "ignore":
		signal.Ignore(signalsByName[arg])
	case "catch": // SIG,CODE: say so and exit with CODE
		sig, code, _ := strings.Cut(arg, ",")
		exitOn(signalsByName[sig], sig, code)
	case "note": // SIG: say so and go on
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, signalsByName[arg])
		go func() {
			for range ch {
				fmt.Println("got " + arg)
			}
		}()
	case "hold": // keep a FIFO open for writing until the end
		f, err := os.OpenFile(arg, os.O_WRONLY, 0)
		must(err)
		held = append(held, f)
	case "peer": // until whoever holds the FIFO ends
		f, err := os.Open(arg)
		must(err)
		_, _ = io.Copy(io.Discard, f)
	case "meet": // until someone holds the FIFO
		_, err := os.Open(arg)
		must(err)
	case "child", "daemon": // "child=ops": start a process in the group, or in a session of its own
		cmd := exec.CommandContext(tContext(), os.Args[0], strings.Split(arg, "+")...)
		r, w, err := os.Pipe()
		must(err)
		heard = append(heard, r)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.ExtraFiles = []*os.File{w}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: name == "daemon"}
		must(cmd.Start())
		must(w.Close())
		fmt.Printf("%s %d\n", name, cmd.Process.Pid)
	case "up": // for "hear" in the process that started this one
		fmt.Println(arg)
		must(os.NewFile(3, "up").Close())
	case "hear": // until the child started last but not yet heard of is up
		_, _ = heard[0].Read(make([]byte, 1))
		heard = heard[1:]
	case "pid":
		fmt.Printf("pid %d\n", os.Getpid())
	case "block":
		block()
	default:
		must(fmt.Errorf("unknown operation %q", name))
	}
}

var held, heard []*os.File

func exitOn(sig syscall.Signal, name, code string) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, sig)
	go func() {
		<-ch
		n, err := strconv.Atoi(code)
		must(err)
		fmt.Println("got " + name)
		os.Exit(n)
	}()
}

// block waits for ever, so that only a signal ends the process.
func block() {
	r, w, err := os.Pipe()
	must(err)
	_, _ = r.Read(make([]byte, 1))
	_ = w.Close()
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake worker:", err)
		os.Exit(99)
	}
}

// fakeLauncher runs an Agent in a process of its own, as cmd/launch does. The first
// argument is the number of workers.
func fakeLauncher(args []string) int {
	n, err := strconv.Atoi(args[0])
	must(err)
	signals, stop := Notify()
	defer stop()
	report, err := Run(tContext(), Config{
		Program: os.Args[0], Args: args[1:], NProc: n, Env: []string{fakeKey + "=1", "GORACE=atexit_sleep_ms=0"},
		Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals,
	})
	must(err)
	_, _ = report.WriteTo(os.Stderr)
	return report.ExitCode()
}

// lineWatch collects output and lets a test wait for a line.
type lineWatch struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	waiters []waiter
}

type waiter struct {
	text  string
	found chan struct{}
}

func (w *lineWatch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	w.waiters = slices.DeleteFunc(w.waiters, func(wt waiter) bool {
		hit := strings.Contains(w.buf.String(), wt.text)
		if hit {
			close(wt.found)
		}
		return hit
	})
	return len(p), nil
}

func (w *lineWatch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// await blocks until text has been written.
func (w *lineWatch) await(t *testing.T, text string) {
	t.Helper()
	found := make(chan struct{})
	w.mu.Lock()
	if strings.Contains(w.buf.String(), text) {
		close(found)
	} else {
		w.waiters = append(w.waiters, waiter{text, found})
	}
	w.mu.Unlock()
	select {
	case <-found:
	case <-time.After(testDeadline):
		t.Fatalf("no %q in the output after %s; it is:\n%s", text, testDeadline, w.String())
	}
}

// number gives the integer that follows text in the output.
func (w *lineWatch) number(t *testing.T, text string) int {
	t.Helper()
	_, rest, ok := strings.Cut(w.String(), text)
	digits, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(digits))
	if !ok || err != nil {
		t.Fatalf("no number after %q in the output:\n%s", text, w.String())
	}
	return n
}
