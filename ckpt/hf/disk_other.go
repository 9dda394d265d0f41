//go:build !linux && !darwin

package hf

import "io"

func (osDisk) syncDir(string) error           { return nil }
func (osDisk) lock(string) (io.Closer, error) { return nil, errNoLock }
func (osDisk) free(string) (uint64, bool)     { return 0, false }
func (osDisk) exchange(string, string) error  { return errNoExchange }
func isFull(error) bool                       { return false }
