// Package sockets asks the kernel for the state of a connection, without reading any of its bytes.
package sockets

// State says whether a connection has unread bytes.
type State int

const (
	NothingKnown State = iota // no unread bytes, or the system can't tell
	UnreadBytes               // bytes that are not read yet
	Ended                     // the end of the stream, or an error
)
