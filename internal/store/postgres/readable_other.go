//go:build !(linux || darwin || freebsd)

package postgres

import "net"

// readable can't be asked here. A dead connection is then noticed by its use.
func readable(net.Conn) bool { return false }
