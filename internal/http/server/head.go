package server

import (
	"errors"
	"io"
	"net"
)

const (
	// maxHeadFields is how many fields the head of a request may have: header lines, and names in
	// the query. A parsed field takes about 100 bytes besides its text, so maxHeaderBytes alone
	// does not bound the memory.
	maxHeadFields = 128
	// maxHeadElements is how many elements the lists in header lines may have together: cookies,
	// ranges, names of a trailer. A parsed element takes up to 40 bytes.
	maxHeadElements = 1024
	// maxRead bounds the bytes that one read returns. What a read returns beyond a head is not
	// counted, because it may be a body. It may also be the beginning of the next head.
	maxRead = 1 << 10
)

// head counts the fields of a request's head while the head is read. At that time net/http has not
// parsed it yet.
type head struct {
	lines, names int
	elements     int  // separators in header lines
	text         bool // the line being read is not blank
	ended        bool
}

// add counts the fields in the bytes that were read. It returns false if there are too many.
func (h *head) add(read []byte) bool {
	for _, b := range read {
		if h.ended { // what follows the head is not counted, but the head is still compared with the bounds
			break
		}
		switch {
		case b == '\n' && h.text:
			h.lines, h.text = h.lines+1, false
		case b == '\n':
			h.ended = h.lines > 0 // net/http skips blank lines after a POST
		case b == '&' && h.lines == 0:
			h.names, h.text = h.names+1, true
		case b != '\r':
			if h.text = true; b == ',' || b == ';' {
				h.elements++
			}
		}
	}
	return h.lines+h.names <= maxHeadFields && h.elements <= maxHeadElements
}

// Read implements net.Conn. If a head has too many fields, Read answers 431 and fails.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p[:min(len(p), maxRead)])
	if !c.head.add(p[:n]) {
		_, _ = io.WriteString(c.TCPConn, tooManyHeadFields)
		err = &net.OpError{Op: "read", Err: errTooManyHeadFields} // to other errors net/http answers 400
		n = 0
	}
	return n, err
}

var errTooManyHeadFields = errors.New("the head has too many fields")

const tooManyHeadFields = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n" +
	"Connection: close\r\n\r\nA request may have at most 128 header lines and names in its query, and 1024 elements in the lists of its header.\n"
