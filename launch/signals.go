package launch

import (
	"os"
	"os/signal"
	"syscall"
)

// Notify subscribes to the signals that concern a launcher: SIGINT, SIGTERM,
// SIGHUP and SIGQUIT, which end the job, and SIGUSR1 and SIGUSR2, which are
// passed on. A signal that was ignored when the program started (nohup, a
// background job) stays ignored, in the workers too. stop undoes it.
func Notify() (signals <-chan os.Signal, stop func()) {
	ch := make(chan os.Signal, 16)
	for _, sig := range []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
	return ch, func() { signal.Stop(ch) }
}
