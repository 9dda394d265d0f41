package grpctransport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"rejoin/collective"
	"rejoin/collective/wire"
)

// Defaults of Config.
const (
	DefaultConnectTimeout   = 30 * time.Second
	DefaultKeepaliveTime    = 2 * time.Second
	DefaultKeepaliveTimeout = 4 * time.Second
)

const (
	window      = 16 << 20  // flow control credit in bytes, per stream and connection
	bufferBytes = 128 << 10 // of the socket reader and writer
	maxMessage  = collective.MaxSegmentBytes + wire.HeaderLen + 64<<10
	// clientPing is the shortest interval at which grpc-go lets a client ping.
	clientPing = 10 * time.Second
)

// Config describes one rank's transport.
type Config struct {
	Rank int
	// Peers are the addresses of all ranks, as Address gives them; this rank's
	// own is not used.
	Peers []string
	// Listener is where the peers reach this rank. The transport owns it.
	Listener net.Listener
	// RunID and Generation must be equal on all ranks.
	RunID      string
	Generation uint64
	// ConnectTimeout is how long a peer may take to be reached.
	ConnectTimeout time.Duration
	// KeepaliveTime is how long a connection may be silent before the peer is
	// asked for a sign of life, at least 1 s, and KeepaliveTimeout how long that
	// may take.
	KeepaliveTime, KeepaliveTimeout time.Duration
	// NoSharedMemory sends every payload over the connection, also to a peer on
	// this host.
	NoSharedMemory bool
}

// ErrConfig is wrapped by every error about a Config.
var ErrConfig = errors.New("grpctransport: configuration")

func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&c.ConnectTimeout, DefaultConnectTimeout},
		{&c.KeepaliveTime, DefaultKeepaliveTime},
		{&c.KeepaliveTimeout, DefaultKeepaliveTimeout},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < 0 {
			return c, fmt.Errorf("%w: negative duration %v", ErrConfig, *d.v)
		}
	}
	if c.Rank < 0 || c.Rank >= len(c.Peers) {
		return c, fmt.Errorf("%w: rank %d of %d peers", ErrConfig, c.Rank, len(c.Peers))
	}
	if c.Listener == nil {
		return c, fmt.Errorf("%w: no listener", ErrConfig)
	}
	for rank, addr := range c.Peers {
		if rank != c.Rank && addr == "" {
			return c, fmt.Errorf("%w: rank %d has no address", ErrConfig, rank)
		}
	}
	return c, nil
}

// Address is what peers on this host dial to reach l: host:port for TCP,
// unix:path or unix-abstract:name for a unix socket.
func Address(l net.Listener) string {
	a, ok := l.Addr().(*net.UnixAddr)
	if !ok {
		return l.Addr().String()
	}
	if name, abstract := strings.CutPrefix(a.Name, "@"); abstract {
		return "unix-abstract:" + name
	}
	return "unix:" + a.Name
}

// dial connects to an address as Address gives it.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	network := "tcp"
	if name, ok := strings.CutPrefix(addr, "unix-abstract:"); ok {
		network, addr = "unix", "@"+name
	} else if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func (c Config) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}), grpc.WaitForHandlers(true),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.ReadBufferSize(bufferBytes), grpc.WriteBufferSize(bufferBytes),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: c.KeepaliveTime, Timeout: c.KeepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: clientPing / 2, PermitWithoutStream: true}),
	}
}

func (c Config) dialOptions() []grpc.DialOption {
	retry := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(codec{}), grpc.WaitForReady(true), grpc.MaxRetryRPCBufferSize(0),
			grpc.MaxCallSendMsgSize(maxMessage), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithReadBufferSize(bufferBytes), grpc.WithWriteBufferSize(bufferBytes),
		grpc.WithDisableRetry(), grpc.WithNoProxy(), grpc.WithIdleTimeout(0), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: 2 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: clientPing, Timeout: c.KeepaliveTimeout, PermitWithoutStream: true}),
	}
}
