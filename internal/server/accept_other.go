//go:build !linux

package server

import "net"

// EndAccepting does nothing: only Linux tells how many connections wait to be accepted.
func EndAccepting(net.Listener) {}
