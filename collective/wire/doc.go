// Package wire is what one rank says to another during a collective: the
// header in front of every message, the message itself, and the pool its
// payload comes from.
//
// It promises that a header decodes to what was encoded or to an error, and
// that a decoded header never makes the reader allocate. It moves no bytes
// between ranks; transports do.
package wire
