// Package launch is the agent of one node: it spawns the N worker processes of
// a job, gives them torchrun's environment, carries their output in whole
// lines, watches them, ends all of them when one fails, and says which failed
// first and why.
//
// It promises that [Agent.Run] returns only when every process it started, and
// what those processes started, has ended or is listed as impossible to end;
// that every wait has a deadline; and that the workers do not outlive the
// launcher, even when it is killed with SIGKILL:
//
//   - every worker leads its own session, so that it is signalled with all its
//     children and the terminal's Ctrl-C reaches the launcher alone;
//   - on Linux the kernel kills a worker when the launcher dies (PDEATHSIG), and
//     orphaned grandchildren are adopted and reaped;
//   - a small shell process, the guardian, waits for the launcher's end on a pipe
//     and then kills what is left of the workers' process groups.
//
// Decisions (who failed first, whom to signal and when) are in a state machine
// without I/O; see machine.go and cause.go.
//
// A line of output is prefixed with "[rankN]: ". A line ends with a newline or a
// carriage return, so that progress bars show as they move; its bytes are kept
// as they are, valid UTF-8 or not, and a last line without an end gets a newline.
// The workers' standard input is empty.
//
// The package does not restart workers, does not form the group (package
// rendezvous does; it tells the agent of a frozen rank through [Agent.Fail]) and
// does not read the command line (package launch/jobflags does).
//
// # Exit codes
//
// [Report.ExitCode] is 0 when every worker exited with 0; the code of the rank
// that failed first; 128+n when signal n killed it; 124 ([ExitFrozen]) when it
// was declared failed while its process lived; and 128+n when signal n asked
// the launcher to stop before anything had failed. Where workers can save and
// stop ([Config.StoppedCode]), their code for it is the job's. [ExitCode] gives the code
// of an error that kept the job from starting: 127 when the program is not
// found, 126 when it cannot be executed, 2 for a wrong configuration, 1 otherwise.
package launch
