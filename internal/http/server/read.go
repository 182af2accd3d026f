package server

import (
	"fmt"
	"io"
	"net/http"
)

// ReadBody returns the body of a request. Errors: a *Problem of the kind TooLarge if the body is
// longer than maxBytes, and those of UnreadableBodyProblem.
func ReadBody(r *http.Request, maxBytes int64) ([]byte, error) {
	var body []byte
	var err error
	if r.ContentLength <= maxBytes {
		body, err = io.ReadAll(io.LimitReader(r.Body, maxBytes+1))
	}
	switch {
	case err != nil:
		return nil, UnreadableBodyProblem(err)
	case max(r.ContentLength, int64(len(body))) > maxBytes:
		return nil, &Problem{
			Kind:   TooLarge,
			Detail: fmt.Sprintf("This body may have at most %d KiB.", maxBytes>>10),
		}
	}
	return body, nil
}
