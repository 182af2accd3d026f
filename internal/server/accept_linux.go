package server

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// acceptWithin bounds how long EndAccepting waits.
const acceptWithin = time.Second

// EndAccepting stops listening on a port at a moment when each connection that the kernel has made
// is accepted, at most a second later. To close the port would reset the others: a proxy that asks
// no /readyz, such as nginx, has sent its request by then, and answers 502. It goes to another
// replica where a connection is refused. A handshake that is under way is still reset.
func EndAccepting(l net.Listener) {
	port, ok := l.(syscall.Conn)
	if !ok {
		return
	}
	conn, err := port.SyscallConn()
	if err != nil {
		return
	}
	for began, ended := time.Now(), false; !ended && time.Since(began) < acceptWithin; <-time.After(time.Millisecond) {
		_ = conn.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if ended = err != nil || info.Unacked == 0; ended { // of a listening socket: how many wait to be accepted
				_ = unix.Shutdown(int(fd), unix.SHUT_RD)
			}
		})
	}
}
