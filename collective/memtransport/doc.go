// Package memtransport connects the ranks of one process through memory, for
// tests and for running several ranks in one program.
//
// It promises what collective.Transport asks for, and lets a test stand in the
// way of any message: hold it, drop it, change it, or kill a rank. It starts no
// timers of its own, so it works under testing/synctest.
package memtransport
