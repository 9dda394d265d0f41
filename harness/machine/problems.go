package machine

import (
	"fmt"
	"net"
	"slices"
)

// resolver answers what findProblems asks of the network.
type resolver struct {
	host  func(name string) ([]string, error)
	local func() ([]string, error) // this host's own addresses
}

// Limits below which trouble is near.
const (
	lowShared = 64 << 20 // a container's default /dev/shm; torch's DataLoader workers fill it
	lowFiles  = 1024
	lowMemory = 512 << 20
)

// findProblems notes what is likely to make trouble, and what to do.
func (d *Description) findProblems(r resolver) {
	note := func(format string, args ...any) { d.Problems = append(d.Problems, fmt.Sprintf(format, args...)) }
	switch addresses, err := r.host("localhost"); {
	case err != nil:
		note("the name localhost does not resolve (%v): add \"127.0.0.1 localhost\" to /etc/hosts; launch itself uses 127.0.0.1", err)
	case !slices.ContainsFunc(addresses, isLoopback):
		note("the name localhost resolves to %v, none of them a loopback address: correct /etc/hosts", addresses)
	}
	if d.Host != "" {
		d.ownName(r, note)
	}
	if !slices.ContainsFunc(d.Interfaces, func(i Interface) bool { return slices.ContainsFunc(i.Addresses, isLoopback) }) {
		note("no loopback interface is up: workers of one machine cannot meet; `ip link set lo up`")
	}
	if d.SharedSize > 0 && d.SharedFree < lowShared {
		note("/dev/shm has %d MiB free: programs that share memory through it, as torch's DataLoader does, may die with SIGBUS; start the container with a larger --shm-size", d.SharedFree>>20)
	}
	if d.OpenFiles > 0 && d.OpenFiles < lowFiles {
		note("only %d files may be open at a time: many workers need more; `ulimit -n 4096`", d.OpenFiles)
	}
	if d.Available > 0 && d.Available < lowMemory {
		note("only %d MiB of memory are available: the kernel may kill a worker", d.Available>>20)
	}
	if d.CgroupCores > 0 && d.CgroupCores < float64(d.Cores) {
		note("the cgroup's quota is %.3g cores of %d: start no more workers than that, or they are throttled in turn", d.CgroupCores, d.Cores)
	}
}

// ownName checks that this host's own name leads to itself: torch's gloo
// connects to the address that the name gives.
func (d *Description) ownName(r resolver, note func(string, ...any)) {
	addresses, err := r.host(d.Host)
	if err != nil {
		note("this host's own name %s does not resolve: torch's gloo looks it up; add it to /etc/hosts, or set GLOO_SOCKET_IFNAME to an interface", d.Host)
		return
	}
	own, err := r.local()
	if err != nil {
		return
	}
	for _, a := range addresses {
		if isLoopback(a) || slices.Contains(own, a) {
			return
		}
	}
	note("this host's own name %s resolves to %v, which is no address of its: torch's gloo looks it up; correct /etc/hosts, or set GLOO_SOCKET_IFNAME to an interface", d.Host, addresses)
}

// isLoopback takes an address, with or without its prefix length.
func isLoopback(address string) bool {
	if ip, _, err := net.ParseCIDR(address); err == nil {
		return ip.IsLoopback()
	}
	ip := net.ParseIP(address)
	return ip != nil && ip.IsLoopback()
}

func localAddresses() ([]string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range addresses {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil {
			out = append(out, ip.String())
		}
	}
	return out, nil
}
