package servertest

import (
	"strings"
	"sync"
)

// Text collects what several goroutines write at once, such as logs. Others may read it meanwhile.
// The zero value is empty.
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
