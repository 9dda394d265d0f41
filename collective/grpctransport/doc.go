// Package grpctransport moves a group's messages over gRPC: every rank serves
// one method, every other rank opens one stream to it, and each stream carries
// messages one way.
//
// It promises:
//
//   - Payloads are not encoded: the header is 59 bytes, the elements follow as
//     they are, and received pieces are handed on without a copy.
//   - A peer whose process ends is reported as soon as the kernel closes its
//     connection; one that is stopped, after KeepaliveTime + KeepaliveTimeout.
//   - Between two processes of one host that see each other, payloads from 2 KiB
//     to 256 KiB lie in shared memory (package shm), and messages say where: at
//     most 8 MiB per ordered pair of ranks, of which only what is used is taken.
//     This is agreed as a stream opens; where it cannot be, nothing else changes.
//   - A stream of another run or generation is refused before it can deliver.
//
// It does not authenticate or encrypt; listen on loopback, on a unix socket, or
// on a network that you trust.
package grpctransport
