// Package sockets asks the kernel what waits on a connection, and reads nothing from it.
package sockets

// State is what waits on a connection.
type State int

// The states of a connection.
const (
	NothingKnown State = iota // nothing waits, or the system cannot tell
	UnreadBytes               // bytes that are not read yet
	Ended                     // the end of the stream, or an error
)
