//go:build !(linux || darwin || freebsd)

package peek

import "net"

// At returns Unknown: this system can't be asked.
func At(net.Conn) State { return Unknown }
