package server

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long EndAccepting lets handshakes under way end, and how long it then waits at most for the connections to be accepted.
const (
	handshake    = 100 * time.Millisecond
	acceptWithin = 5 * time.Second
)

// withoutSYN is a socket filter that drops what begins a connection: TCP segments with SYN and without ACK (RFC 9293, section 3.1).
var withoutSYN = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13}, // the flags
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x02, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 16},
}

// EndAccepting stops listening on a port of Listen when each connection that the kernel has made or begun is accepted, at most
// five seconds later. To close the port would reset them: a proxy that asks no /readyz, such as nginx, has sent its request by then, and answers
// 502. It goes to another replica where a connection is refused. A connection that is asked for meanwhile gets no answer; the caller's kernel
// asks again after a second, and is refused.
func EndAccepting(l net.Listener) {
	port, ok := l.(syscall.Conn)
	if !ok {
		return
	}
	conn, err := port.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { // without the filter there is still the wait
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(withoutSYN)), Filter: &withoutSYN[0]})
	})
	<-time.After(handshake)
	for began, ended := time.Now(), false; !ended && time.Since(began) < acceptWithin; <-time.After(time.Millisecond) {
		_ = conn.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if ended = err != nil || info.Unacked == 0; ended { // of a listening socket: how many wait to be accepted
				_ = unix.Shutdown(int(fd), unix.SHUT_RD)
			}
		})
	}
}
