package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/audit"
	"sendcode/internal/verification"
)

// found is one page of the list.
type found struct {
	rows  []audit.Send
	next  string // cursor of the page after it; empty: this is the last
	newer string // of the page before it, for "newer"; empty: this is the first
}

// find reads one page.
func (a *Admin) find(ctx context.Context, f audit.Filter) (found, error) {
	rows, err := a.log.Sends(ctx, f)
	if err != nil {
		return found{}, a.unreadable(ctx, err)
	}
	p := found{rows: rows}
	if len(rows) == 0 {
		return p, nil
	}
	full := len(rows) == f.Limit
	if f.Before != nil || f.After != nil && full {
		p.newer = writeCursor(markOf(rows[0]))
	}
	if f.After == nil && !full {
		return p, nil
	}
	p.next, err = cursorAfter(rows, len(rows), markOf, func(last audit.Mark) ([]audit.Send, error) {
		f.Before, f.After, f.Limit = &last, nil, 1
		return a.log.Sends(ctx, f)
	})
	if err != nil {
		return found{}, a.unreadable(ctx, err)
	}
	return p, nil
}

// goesOn says whether a list has more than this page of it: behind a full one it looks for one row, so that a next page is named only
// where there is one.
func goesOn[T any](page []T, limit int, after func(last T) ([]T, error)) (bool, error) {
	if len(page) < limit {
		return false, nil
	}
	more, err := after(page[len(page)-1])
	return len(more) > 0, err
}

// cursorAfter is where a list goes on that is in the order of marks; "" where this page is its end.
func cursorAfter[T any](page []T, limit int, mark func(T) audit.Mark, after func(audit.Mark) ([]T, error)) (cursor string, err error) {
	more, err := goesOn(page, limit, func(last T) ([]T, error) {
		cursor = writeCursor(mark(last))
		return after(mark(last))
	})
	if err != nil || !more {
		return "", err
	}
	return cursor, nil
}

func markOf(s audit.Send) audit.Mark { return audit.Mark{At: s.LoggedAt, ID: s.ID} }

// story reads one row with what belongs to it.
func (a *Admin) story(ctx context.Context, id string) (audit.Story, error) {
	parsed, err := uuid.Parse(id)
	if err != nil || !strings.EqualFold(parsed.String(), id) { // no braces, no urn:
		return audit.Story{}, verification.ErrNotFound
	}
	s, err := a.log.Story(ctx, parsed)
	if err == nil && s.Verification == nil {
		s.Related, err = a.lead(ctx, s.Send)
	}
	if err != nil {
		return s, a.unreadable(ctx, err)
	}
	return s, nil
}

// What led to a refusal that belongs to no verification: so many of the recipient's rows, so far back.
const (
	leadRows = 5
	leadTime = 24 * time.Hour
)

// lead is what the recipient's rules have counted, most likely, and the row itself; oldest first.
func (a *Admin) lead(ctx context.Context, s audit.Send) ([]audit.Send, error) {
	if s.Recipient.IsZero() { // forgotten, as others are
		return []audit.Send{s}, nil
	}
	rows, err := a.log.Sends(ctx, audit.Filter{
		Recipient: &s.Recipient, App: s.App, Channel: s.Channel, From: s.LoggedAt.Add(-leadTime),
		Before: new(markOf(s)), Limit: leadRows,
	})
	slices.Reverse(rows)
	return append(rows, s), err
}

// unreadable says what the log's error is to those outside.
func (a *Admin) unreadable(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, audit.ErrNotFound):
		return verification.ErrNotFound
	case ctx.Err() != nil:
		return fmt.Errorf("%w: the reader left", verification.ErrUnavailable)
	case errors.Is(err, audit.ErrUnavailable):
		a.logger.ErrorContext(ctx, "log could not be read", "error", err)
		return verification.ErrUnavailable
	}
	return fmt.Errorf("reading the log: %w", err)
}

// readable is unreadable of what may be no error.
func (a *Admin) readable(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return a.unreadable(ctx, err)
}
