package sms

import (
	"errors"
	"net/http"
)

// Incoming is what a carrier sent to tell what became of messages, whole.
type Incoming struct {
	URL    string // as the carrier called it: scheme, host, path and query of our public address
	Header http.Header
	Body   []byte
}

// Report is what a carrier says of one send. Reports that say nothing final, such as "queued", are left out.
type Report struct {
	Send      string // ID of the send, as the message had it; empty: it is told by ID
	Delivered bool   // else it is certain that it did not arrive
	ID        string // the carrier's for the message, where it names no send
}

var (
	// ErrForged: the signature is not the carrier's.
	ErrForged = errors.New("sms: the signature of a receipt is wrong")
	// ErrReport: it can't be read.
	ErrReport = errors.New("sms: a receipt can't be read")
)

// Reporter gives the carrier of a name, if it tells afterwards.
func (c *Carriers) Reporter(name string) (Reporter, bool) {
	reporter, ok := c.named(name).Carrier.(Reporter)
	return reporter, ok
}
