package apptest

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"sendcode/internal/store"
)

// History is the log as it is read after a run: every send, the oldest first.
type History []store.Send

// History reads the log of the first replica.
func (s *Stack) History() History { return s.HistoryIn(s.Replicas[0].Log()) }

// Sends is what History reads.
type Sends interface {
	Sends(context.Context, store.Filter) ([]store.Send, error)
}

// HistoryIn reads all rows of a log, oldest first.
func (s *Stack) HistoryIn(log Sends) History {
	s.Helper()
	var all History
	filter := store.Filter{Limit: 200}
	for {
		page, err := log.Sends(s.Context(), filter)
		if err != nil {
			s.Fatal(err)
		}
		for _, row := range page {
			if row.Status != store.Refused {
				all = append(all, row)
			}
		}
		if len(page) < filter.Limit {
			slices.Reverse(all)
			return all
		}
		last := page[len(page)-1]
		filter.Before = &store.Mark{At: last.LoggedAt, ID: last.ID}
	}
}

// StandsAlone reports whether the code is in the text and not a part of a longer word or number.
func StandsAlone(content, code string) bool {
	for rest := content; ; {
		i := strings.Index(rest, code)
		if i < 0 {
			return false
		}
		before, after := byte(' '), byte(' ')
		if i > 0 {
			before = rest[i-1]
		}
		if end := i + len(code); end < len(rest) {
			after = rest[end]
		}
		if !wordByte(before) && !wordByte(after) {
			return true
		}
		rest = rest[i+1:]
	}
}

func wordByte(b byte) bool {
	return b == '.' || b == '-' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// Ready returns the status and body of replica i's /readyz.
func (s *Stack) Ready(i int) (int, string) {
	s.Helper()
	a := s.Do(i, http.MethodGet, "/readyz", "")
	return a.StatusCode, string(a.Raw)
}

// Unavailable is a refusal in plain words: what it is, when to come back, and not the quota's words.
func (s *Stack) Unavailable(a Answer) {
	s.Helper()
	if a.StatusCode != http.StatusServiceUnavailable || a.Type != "/problems/unavailable" || a.Header.Get("Retry-After") == "" {
		s.Errorf("%d %s %v", a.StatusCode, a.Raw, a.Header)
	}
	if strings.Contains(string(a.Raw), "quota") && strings.Contains(string(a.Raw), "rules") {
		s.Errorf("an outage speaks of the quota: %s", a.Raw)
	}
}
