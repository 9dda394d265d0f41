//go:build !amd64

package kernel

const hasAVX2 = false
