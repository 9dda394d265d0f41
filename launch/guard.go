package launch

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// guardScript runs in a shell of its own session until its standard input
// ends. "+ N" and "- N" tell it of process groups; "q" that all is well. An end
// without "q" means that the launcher is gone: then it kills the groups, finds
// by the cookie ($1) what left them, and removes the temporary directory ($2).
const guardScript = `
trap '' HUP INT QUIT TERM USR1 USR2
groups=' '
while read -r op id; do
	case $op in
	+) groups="$groups$id " ;;
	-) groups="${groups%% $id *} ${groups#* $id }" ;;
	q) exit 0 ;;
	esac
done
for id in $groups; do kill -s KILL -- "-$id"; done
for env in $(grep -alsF "` + cookieKey + `=$1" /proc/[0-9]*/environ); do
	id=${env#/proc/}
	kill -s KILL "${id%/environ}"
done
case $2 in */` + tempPrefix + `*) rm -rf -- "$2" ;; esac
`

const tempPrefix = "rejoin-launch-"

// guardian ends the workers' process groups when the launcher is killed by a
// signal that it cannot handle. A launcher on a system without /bin/sh goes without.
type guardian struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
	done chan struct{}
}

func startGuardian(cookie, tempDir string) *guardian {
	cmd := &exec.Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", `eval "$SCRIPT"`, "rejoin-guardian", cookie, tempDir},
		Dir: "/", Env: []string{"PATH=/usr/bin:/bin", "SCRIPT=" + guardScript}, // not an argument: ps shows those
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil
	}
	if err := cmd.Start(); err != nil {
		return nil
	}
	g := &guardian{cmd: cmd, pipe: pipe, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		_ = g.cmd.Wait()
	}()
	return g
}

// add and remove name a process group. A guardian that died is not replaced:
// its pipe is broken, and the kernel's PDEATHSIG stands alone.
func (g *guardian) add(pgid int)    { g.send("+ %d\n", pgid) }
func (g *guardian) remove(pgid int) { g.send("- %d\n", pgid) }

func (g *guardian) send(format string, args ...any) {
	if g != nil {
		_, _ = fmt.Fprintf(g.pipe, format, args...)
	}
}

// stop dismisses the guardian and awaits its end.
func (g *guardian) stop() {
	if g == nil {
		return
	}
	g.send("q\n")
	_ = g.pipe.Close()
	select {
	case <-g.done:
	case <-time.After(time.Second):
		_ = g.cmd.Process.Kill()
		<-g.done
	}
}
