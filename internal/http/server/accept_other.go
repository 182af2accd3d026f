//go:build !linux

package server

import "net"

// EndAccepting stops accepting on an InheritedListener. For other listeners it does nothing: only
// Linux tells how many connections wait to be accepted.
func EndAccepting(l net.Listener) (ended bool) {
	passed, ok := l.(InheritedListener)
	return ok && passed.endAccepting()
}

// MaxDescriptors returns 0, since it does not know this system's limit.
func MaxDescriptors() int { return 0 }
