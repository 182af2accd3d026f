//go:build !(linux || darwin || freebsd)

package peek

import "net"

// At returns a State that says nothing: this system can't be asked.
func At(net.Conn) State { return unknown }
