//go:build !linux

package server

import "net"

// EndAccepting stops accepting on an InheritedListener. For any other listener it does nothing and
// returns false, because it can read only on Linux how many connections wait to be accepted.
func EndAccepting(l net.Listener) (ended bool) {
	inherited, ok := l.(InheritedListener)
	return ok && inherited.endAccepting()
}

// MaxDescriptors returns 0, since the limit is not known on this system.
func MaxDescriptors() int { return 0 }
