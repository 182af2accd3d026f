//go:build linux || darwin || freebsd

package server

import (
	"net"
	"syscall"
)

// hasLeft reports whether the other side of a connection has closed it, and sent nothing that is not read yet. It asks the kernel and reads
// nothing.
func hasLeft(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	var b [1]byte
	left := false
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		left = n <= 0 && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return err != nil || left
}
