// Package machine describes the machine that it runs on, for bug reports: what
// of it decides how training goes, and what is likely to make trouble.
//
// It reads files of the system and starts the Python interpreter to ask it what
// it can import. It sends nothing anywhere and changes nothing; all waits are
// bounded. What a system does not tell stays empty.
package machine
