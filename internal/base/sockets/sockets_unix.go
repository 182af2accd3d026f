//go:build linux || darwin || freebsd

package sockets

import (
	"net"
	"syscall"
)

// StateOf asks the kernel, and doesn't wait for bytes.
func StateOf(conn net.Conn) State {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return NothingKnown
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return Ended
	}
	var b [1]byte
	found := Ended
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN, err == syscall.EINTR:
			found = NothingKnown
		case n > 0:
			found = UnreadBytes
		}
	})
	if err != nil {
		return Ended
	}
	return found
}
