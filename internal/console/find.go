package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/console/listing"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// found is one page of the list.
type found struct {
	rows  []store.Send
	next  string // cursor of the page after it; empty: this is the last
	newer string // of the page before it, for "newer"; empty: this is the first
}

// find reads one page of rows.
func (a *Console) find(ctx context.Context, f store.Filter) (found, error) {
	rows, err := a.Log.Sends(ctx, f)
	if err != nil {
		return found{}, err
	}
	p := found{rows: rows}
	if len(rows) == 0 {
		return p, nil
	}
	full := len(rows) == f.Limit
	if f.Before != nil || f.After != nil && full {
		p.newer = listing.WriteCursor(markOf(rows[0]))
	}
	if f.After == nil && !full {
		return p, nil
	}
	last := markOf(rows[len(rows)-1])
	f.Before, f.After, f.Limit = &last, nil, 1
	more, err := a.Log.Sends(ctx, f)
	if len(more) > 0 {
		p.next = listing.WriteCursor(last)
	}
	return p, err
}

func markOf(s store.Send) store.Mark { return store.Mark{At: s.LoggedAt, ID: s.ID} }

// story reads one row with everything that belongs to it.
func (a *Console) story(ctx context.Context, id string) (store.Story, error) {
	parsed, err := uuid.Parse(id)
	if err != nil || !strings.EqualFold(parsed.String(), id) { // no braces, no urn:
		return store.Story{}, verification.ErrNotFound
	}
	s, err := a.Log.Story(ctx, parsed)
	if err == nil && s.Verification == nil {
		s.Related, err = a.countedBefore(ctx, s.Send)
	}
	return s, err
}

// What led to a refusal that belongs to no verification: so many of the recipient's rows, so far back.
const (
	leadRows = 5
	leadTime = 24 * time.Hour
)

// countedBefore returns the rows that the recipient's rules most likely counted, and the row itself, oldest first.
func (a *Console) countedBefore(ctx context.Context, s store.Send) ([]store.Send, error) {
	if s.Recipient.IsZero() { // forgotten, as others are
		return []store.Send{s}, nil
	}
	rows, err := a.Log.Sends(ctx, store.Filter{
		Recipient: &s.Recipient, App: s.App, Channel: s.Channel, From: s.LoggedAt.Add(-leadTime),
		Before: new(markOf(s)), Limit: leadRows,
	})
	slices.Reverse(rows)
	return append(rows, s), err
}
