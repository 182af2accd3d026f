//go:build linux || darwin || freebsd

package postgres

import (
	"crypto/tls"
	"net"
	"syscall"
)

// hasUnreadBytes reports whether bytes, or the end of the stream, wait on an idle connection. It asks the kernel and reads nothing.
func hasUnreadBytes(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	var b [1]byte
	quiet := false
	err = raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EINTR
	})
	return err != nil || !quiet
}
