package main

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

const maxShared = 256 // the most calls in one trip

// sharing makes calls that arrive during a round trip share the next one. If fewer than most trips
// are under way, a call runs at once.
type sharing struct {
	most int // the most concurrent trips
	trip func(context.Context, []*code) (admitted map[uuid.UUID]bool, err error)

	mu      sync.Mutex
	waiting []*waiting
	active  int
}

type waiting struct {
	*code
	admitted bool
	err      error
	done     chan struct{}
}

func (s *sharing) do(x *code) (bool, error) {
	w := &waiting{code: x, done: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	if s.active < s.most {
		s.active++
		go s.run()
	}
	s.mu.Unlock()
	<-w.done
	return w.admitted, w.err
}

func (s *sharing) run() {
	for batch := s.next(); len(batch) > 0; batch = s.next() {
		codes := make([]*code, len(batch))
		for i, w := range batch {
			codes[i] = w.code
		}
		admitted, err := s.trip(context.Background(), codes)
		for _, w := range batch {
			w.admitted, w.err = admitted[w.send], err
			close(w.done)
		}
	}
}

// next takes at most one send of each recipient, because two sends in one statement do not see each
// other's row.
func (s *sharing) next() (batch []*waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, left := map[string]bool{}, s.waiting[:0]
	for _, w := range s.waiting {
		if len(batch) == maxShared || seen[w.to] {
			left = append(left, w)
			continue
		}
		seen[w.to] = true
		batch = append(batch, w)
	}
	clear(s.waiting[len(left):])
	s.waiting = left
	if len(batch) == 0 {
		s.active--
	}
	return batch
}
