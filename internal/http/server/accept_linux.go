package server

import (
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endAcceptingTimeout is the longest time that EndAccepting waits. Tests lengthen it.
var endAcceptingTimeout = time.Second

// EndAccepting stops listening on a port, but does not reset connections that the kernel has
// already made. It first waits until all such connections are accepted. If this takes more than a
// second, EndAccepting leaves the port open.
//
// Closing the port at once would reset these connections. A proxy that does not request /readyz,
// such as nginx, may have sent a request on such a connection and would answer 502. Refusing a
// later connection does less harm, because the proxy can then try another replica. A handshake that
// has not ended is still reset.
//
// An InheritedListener stays open, and its connections wait for the next process. EndAccepting
// returns true if later calls of Accept fail.
func EndAccepting(l net.Listener) (ended bool) {
	if inherited, ok := l.(InheritedListener); ok {
		return inherited.endAccepting()
	}
	port, ok := l.(syscall.Conn)
	if !ok {
		return false
	}
	conn, err := port.SyscallConn()
	if err != nil {
		return false
	}
	for began := time.Now(); !ended && time.Since(began) < endAcceptingTimeout; <-time.After(time.Millisecond) {
		_ = conn.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			ended = err != nil || info.Unacked == 0
			if ended { // on a listening socket: the connections not yet accepted
				_ = unix.Shutdown(int(fd), unix.SHUT_RD)
			}
		})
	}
	return ended
}

// MaxDescriptors returns how many files and connections this process may have open. The result 0
// means that the limit is unknown.
func MaxDescriptors() int {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // can't fail for the process's own limits
	return int(min(limit.Cur, math.MaxInt32))
}
