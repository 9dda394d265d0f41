//go:build !linux

package shm

import (
	"fmt"
	"runtime"
)

func createRegion() (*region, int, error) {
	return nil, 0, fmt.Errorf("shared memory is not used on %s", runtime.GOOS)
}

func openRegion(offer) (*region, error) {
	return nil, fmt.Errorf("%w: it is not used on %s", ErrOffer, runtime.GOOS)
}

func closeFile(int) {}
