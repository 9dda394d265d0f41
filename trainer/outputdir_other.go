//go:build !unix

package trainer

// writable cannot be asked here without writing: the first save will tell.
func writable(string) error { return nil }
