package grpctransport

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"runtime"
)

// ListenLocal returns a listener for peers on the same host only: on Linux an
// abstract unix socket, which is quicker than loopback and leaves no file
// behind, elsewhere a loopback port.
func ListenLocal(ctx context.Context) (net.Listener, error) {
	network, addr := "tcp", "127.0.0.1:0"
	if runtime.GOOS == "linux" {
		network, addr = "unix", "@rejoin-"+rand.Text()
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("grpctransport: listening for peers on this host: %w", err)
	}
	return l, nil
}
