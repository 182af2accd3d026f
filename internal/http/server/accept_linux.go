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

// EndAccepting stops listening on a port without refusing connections that the kernel has already
// made. It waits, at most a second, until all such connections are accepted. If the port were
// closed, they would be reset: a proxy that does not ask /readyz, such as nginx, may have sent its
// request on such a connection, and would answer 502. To refuse a later connection is harmless,
// since the proxy then tries another replica. A handshake that is under way is still reset. An
// InheritedListener stays open, and its connections wait for the next process. ended reports
// whether Accept fails from now on.
func EndAccepting(l net.Listener) (ended bool) {
	if passed, ok := l.(InheritedListener); ok {
		return passed.endAccepting()
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

// MaxDescriptors returns how many files and connections this process may have open; 0: unknown.
func MaxDescriptors() int {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // fails never for the own process
	return int(min(limit.Cur, math.MaxInt32))
}
