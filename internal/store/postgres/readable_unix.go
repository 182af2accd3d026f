//go:build linux || darwin || freebsd

package postgres

import (
	"crypto/tls"
	"net"
	"syscall"
)

// readable says that something waits to be read: on an idle connection, the server's last word or its end.
// It asks the kernel alone and takes nothing from the stream.
func readable(conn net.Conn) bool {
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
