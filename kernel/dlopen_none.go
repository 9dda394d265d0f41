//go:build !((linux || darwin) && (amd64 || arm64))

package kernel

import "errors"

func openBLAS(string) (string, gemmFunc, error) {
	return "", nil, errors.New("shared libraries are loaded on linux and darwin, amd64 and arm64 only")
}
