//go:build !(linux || darwin || freebsd)

package sockets

import "net"

// StateOf returns NothingKnown: this system cannot tell.
func StateOf(net.Conn) State { return NothingKnown }
