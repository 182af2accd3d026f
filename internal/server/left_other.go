//go:build !(linux || darwin || freebsd)

package server

import "net"

// hasLeft is always false: this system can't be asked.
func hasLeft(net.Conn) bool { return false }
