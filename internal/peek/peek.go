// Package peek asks the kernel what waits on a connection, and reads nothing from it.
package peek

// State is what waits on a connection.
type State int

// The states of a connection.
const (
	unknown State = iota // the connection or the system can't be asked
	quiet                // nothing waits
	Bytes                // bytes that are not read yet
	Ended                // the end of the stream, or an error
)
