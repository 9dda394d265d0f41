package launch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

func TestReservedPort(t *testing.T) {
	r, err := reservePort(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for _, host := range []string{"127.0.0.1", "", "[::1]"} { // as torch's and Go's servers do
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, r.port))
		if err != nil {
			if host == "[::1]" {
				t.Logf("no IPv6: %v", err)
				continue
			}
			t.Fatalf("rank 0 could not listen on the reserved port: %v", err)
		}
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatalf("a peer could not connect: %v", err)
		}
		conn.Close()
		l.Close()
	}
}

// The kernel gives a held port to nobody else who asks for a free one.
func TestReservedPortsDiffer(t *testing.T) {
	seen := map[int]bool{}
	for i := range 300 {
		r, err := reservePort(0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, port := range []int{r.port, l.Addr().(*net.TCPAddr).Port} {
			if seen[port] {
				t.Fatalf("port %d was given twice, at round %d", port, i)
			}
			seen[port] = true
		}
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	f := newFixture(1)
	f.MasterPort = port
	_, err = Run(t.Context(), f.Config)
	var inUse *PortInUseError
	if !errors.As(err, &inUse) || inUse.Port != port {
		t.Fatalf("got %v, expected a PortInUseError of %d", err, port)
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Errorf("the owner is not named: %v", err)
	}
	l.Close()
	f.Args = []string{"env=MASTER_PORT"}
	wantCode(t, f.run(t), 0)
	if got := f.out.number(t, "MASTER_PORT="); got != port {
		t.Errorf("MASTER_PORT=%d, expected %d", got, port)
	}
}

// A port whose last connection is in TIME_WAIT is free.
func TestPortInTimeWait(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server.Close() // the side that closes first keeps the port in TIME_WAIT
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Fatal("the server did not close")
	}
	client.Close()
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	r, err := reservePort(port)
	if err != nil {
		t.Fatalf("port %d: %v", port, err)
	}
	r.close()
}

func TestListeners(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:733C 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
cut`
	inodes := map[string]bool{}
	listeners([]byte(table), 29500, inodes)
	if len(inodes) != 1 || !inodes["socket:[4711]"] {
		t.Errorf("got %v, expected socket 4711", inodes)
	}
}
