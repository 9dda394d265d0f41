// Package fault names the points at which a program can be made to fail, for
// tests of what it leaves behind.
//
// In ordinary builds [At] does nothing and costs nothing. Programs built with
// the tag rejoin_fault obey the environment variable REJOIN_FAULT; nothing that
// a program reads from files reaches it. Its form is
//
//	POINT[@RANK][#N]:ACTION
//
// where POINT is a name, or * for any; RANK is compared with the variable RANK;
// N is how manyeth passing of the point it is, 1 if left out; and ACTION is
//
//	kill          SIGKILL to the process itself
//	fail          the call fails with EIO
//	full          the call fails with ENOSPC
//	delay=TIME    the call is late by TIME, as in 500ms
//	list=FILE     every passing appends the point's name to FILE
package fault
