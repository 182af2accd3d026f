package apptest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// Carrier is the API of a carrier of text messages, which takes them as forms with the fields to,
// text and cb (the callback).
type Carrier struct {
	*httptest.Server
	mu      sync.Mutex
	forms   []url.Values
	traces  []string          // traceparent of every message
	answers map[string]string // by number
}

// NewCarrier starts a carrier on loopback. It answers with the JSON of an id and a status, which is
// 0 for numbers without another one.
func NewCarrier(t *testing.T) *Carrier {
	t.Helper()
	c := &Carrier{answers: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forms, c.traces = append(c.forms, r.Form), append(c.traces, r.Header.Get("traceparent"))
		_, _ = fmt.Fprintf(w, `{"id": "m1", "status": %q}`, cmp.Or(c.answers[r.Form.Get("to")], "0"))
	}))
	t.Cleanup(c.Close)
	return c
}

// Answer makes the carrier answer with this status for a number.
func (c *Carrier) Answer(to, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[to] = status
}

// Traces returns the header traceparent of every message so far.
func (c *Carrier) Traces() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.traces)
}

// Asked returns the form of every message so far.
func (c *Carrier) Asked() []url.Values {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.forms)
}
