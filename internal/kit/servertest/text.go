package servertest

import (
	"strings"
	"sync"
)

// Text collects the output of several goroutines, such as logs. Others may read it at the same
// time. The zero value is empty.
type Text struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer; it never fails.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

// String returns everything that was written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
