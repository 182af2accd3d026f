//go:build !linux

package server

import "net"

// EndAccepting stops accepting on a InheritedListener. For others it does nothing: only Linux tells
// how many connections wait to be accepted.
func EndAccepting(l net.Listener) (ended bool) {
	passed, ok := l.(InheritedListener)
	return ok && passed.endAccepting()
}

// MaxDescriptors returns 0: this system's limit is not asked for.
func MaxDescriptors() int { return 0 }
