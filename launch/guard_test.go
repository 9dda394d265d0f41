package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// victim is a process in a group of its own that only a signal ends.
func victim(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "block")
	cmd.Env = append(env, fakeKey+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func killedBy(t *testing.T, cmd *exec.Cmd) syscall.Signal {
	t.Helper()
	_ = cmd.Wait()
	return cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()
}

func TestGuardianWithoutGoodbye(t *testing.T) {
	dir := filepath.Join(t.TempDir(), tempPrefix+"x")
	if err := os.MkdirAll(filepath.Join(dir, "attempt_0"), 0o700); err != nil {
		t.Fatal(err)
	}
	cookie := randomHex()
	kept, removed := victim(t), victim(t)
	marked := victim(t, cookieKey+"="+cookie)
	g := startGuardian(cookie, dir)
	if g == nil {
		t.Skip("no /bin/sh")
	}
	g.add(removed.Process.Pid)
	g.add(kept.Process.Pid)
	g.remove(removed.Process.Pid)
	_ = g.pipe.Close() // as when the launcher is killed
	if sig := killedBy(t, kept); sig != syscall.SIGKILL {
		t.Errorf("a group of its list ended by %v, expected SIGKILL", sig)
	}
	<-g.done
	if gone(removed.Process.Pid) || processState(removed.Process.Pid) == "ended" {
		t.Error("a group that was taken off its list was ended")
	}
	_ = removed.Process.Signal(syscall.SIGTERM)
	if sig := killedBy(t, removed); sig != syscall.SIGTERM {
		t.Errorf("a group that was taken off its list ended by %v", sig)
	}
	if processState(os.Getpid()) == "" {
		_ = marked.Process.Kill()
	}
	if sig := killedBy(t, marked); sig != syscall.SIGKILL {
		t.Errorf("a process with the mark ended by %v, expected SIGKILL", sig)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
}

func TestGuardianDismissed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), tempPrefix+"x")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	v := victim(t)
	g := startGuardian(randomHex(), dir)
	g.add(v.Process.Pid)
	g.stop()
	_ = v.Process.Signal(syscall.SIGTERM)
	if sig := killedBy(t, v); sig != syscall.SIGTERM {
		t.Errorf("after its dismissal the guardian ended a group with %v", sig)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the directory is the launcher's to remove: %v", err)
	}
	var none *guardian // a system without a shell
	none.add(1)
	none.stop()
}

func TestRunDir(t *testing.T) {
	d, err := makeRunDir(Config{})
	if err != nil || !d.temp {
		t.Fatalf("%+v, %v", d, err)
	}
	rank, err := d.rank(2, 11)
	if err != nil || rank != filepath.Join(d.root, "attempt_2", "11") {
		t.Errorf("%s, %v", rank, err)
	}
	d.remove()
	if _, err := os.Stat(d.root); !os.IsNotExist(err) {
		t.Errorf("%s is still there", d.root)
	}
	if _, err := d.rank(0, 0); err != nil {
		t.Errorf("made again: %v", err)
	}
	d.remove()
	if got, err := (runDir{}).rank(0, 0); got != "" || err != nil {
		t.Errorf("without a root: %q, %v", got, err)
	}
	if got := sanitise("a b/../c:ü9_-."); got != "a_b_.._c__9_-." {
		t.Errorf("got %q", got)
	}
}
