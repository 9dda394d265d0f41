// Package rendezvous is who is in a job: the launcher serves it, every rank
// joins it, gets the world (all ranks, their addresses, the job's payload), and
// stays in touch until it leaves.
//
// It promises:
//
//   - Joining ends: with the world, or with an error that lists the ranks that
//     never came, on every rank and in the launcher. Strangers (another job's
//     ranks, a second process of the same rank) are refused at once.
//   - The first failure is one and the same for all: a rank that reports it is
//     failing, that the launcher saw exit, or that has not answered for the
//     heartbeat timeout, is named to every other rank with a reason.
//   - A connection that breaks is only a suspicion for a short grace, so that
//     the launcher, who knows the exit status, can give the better reason.
//
// All decisions are in a state machine without I/O or clock. It does not start
// or end processes, does not survive the launcher, and does not authenticate:
// serve it on loopback or on a network that you trust.
package rendezvous
