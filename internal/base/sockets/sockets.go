// Package sockets asks the kernel for the state of a connection. It does not consume any bytes from
// the connection.
package sockets

// State says whether bytes wait on a connection.
type State int

// The states of a connection.
const (
	NothingKnown State = iota // nothing waits, or the system cannot tell
	UnreadBytes               // bytes that are not read yet
	Ended                     // the end of the stream, or an error
)
