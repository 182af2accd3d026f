//go:build !(linux || darwin || freebsd)

package postgres

import "net"

// hasUnreadBytes is always false: this system can't be asked. A lost connection is then noticed when it is used.
func hasUnreadBytes(net.Conn) bool { return false }
