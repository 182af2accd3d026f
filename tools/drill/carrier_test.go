package drill

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// carrier accepts text messages on loopback; tests script its answers.
type carrier struct {
	*httptest.Server
	mu        sync.Mutex
	answers   map[string]string // by number; 0 unless there
	callbacks map[string]string // by number: where to tell what became of the message
}

func startCarrier(t *testing.T) *carrier {
	c := &carrier{answers: map[string]string{}, callbacks: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	return c
}

func (c *carrier) take(w http.ResponseWriter, r *http.Request) {
	var m struct{ To, Callback string }
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callbacks[m.To] = m.Callback
	status := c.answers[m.To]
	if status == "" {
		status = "0"
	}
	fmt.Fprintf(w, `{"id": "m1", "status": %q}`, status)
}

// answer makes the carrier answer for a number with this status from now on.
func (c *carrier) answer(to, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[to] = status
}

// receipt sends the carrier's report about the message to a number.
func (c *carrier) receipt(s *environment, to, status string) {
	s.Helper()
	c.mu.Lock()
	path := strings.TrimPrefix(c.callbacks[to], "https://codes.example.com")
	c.mu.Unlock()
	if a := s.Get(path + "&st=" + status); a.StatusCode != http.StatusNoContent {
		s.Fatalf("the receipt at %q: %d", path, a.StatusCode)
	}
}
