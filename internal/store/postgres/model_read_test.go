package postgres

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/storetest"
)

func (m *model) read(*rapid.T) {
	send := m.held().ID
	m.same("SendDetails", func(f *storetest.Fixture) []any {
		story, err := f.SendDetails(m.ctx, send)
		v := story.Verification
		story.Verification = nil
		return answers(story, fmt.Sprintf("%+v", v), err)
	})
	v := store.Verification{
		App: "shop", Channel: recipient.Email, Recipient: recipient.Hash{15: 1},
		Class: rapid.SampledFrom(store.Classes).Draw(m.T, "class"),
	}
	m.same("Lockout", func(f *storetest.Fixture) []any { return answers(f.Lockout(m.ctx, v)) })
	id, holder := m.code(), store.HolderQuery{
		App: "shop", Channel: recipient.Email, Recipient: v.Recipient,
		Purpose: "login", Holder: "s:1",
	}
	m.same("Verification", func(f *storetest.Fixture) []any { return answers(f.Verification(m.ctx, id)) })
	m.same("Newest", func(f *storetest.Fixture) []any { return answers(f.VerificationToCheck(m.ctx, holder)) })
	within := max(0, m.span("within"))
	bucket := store.Bucket{App: "shop", Channel: recipient.Email, Recipient: recipient.Hash{15: 1}, Purposes: []string{"login", "signup"}}
	rejected := max(0, m.span("rejected"))
	m.same("ReadHistory", func(f *storetest.Fixture) []any {
		h, err := f.ReadHistory(m.ctx, rowrules.HistoryQuery{Bucket: bucket, CountedWithin: within, RejectedWithin: rejected})
		return answers(h.Sends(within), h.SendsOfVerifications([]string{id}, within), h.RejectedSends(rejected), h.Now, err)
	})
	m.same("LatestRowPerRecipient", func(f *storetest.Fixture) []any {
		return answers(f.LatestRowPerRecipient(m.ctx, []recipient.Hash{{15: 1}, {15: 2}, {15: 3}}, within))
	})
	m.same("SendsByID", func(f *storetest.Fixture) []any { return answers(f.SendsByID(m.ctx, []uuid.UUID{send})) })
	listed := store.SuppressionFilter{ActiveOrHeld: rapid.Bool().Draw(m.T, "active"), Limit: 2, Before: m.mark()}
	m.same("Suppressions", func(f *storetest.Fixture) []any { return answers(f.Suppressions(m.ctx, listed)) })
	for range 3 {
		m.readFiltered()
	}
}

// mark is a place in the database, or none.
func (m *model) mark() *store.Cursor {
	if m.number("page", 0, 2) > 0 {
		return nil
	}
	return &store.Cursor{At: storetest.Epoch.Add(m.span("mark")), ID: m.held().ID}
}

// readFiltered lists sends by some conditions: those that matches says, of all that there are.
func (m *model) readFiltered() {
	filter := store.Filter{Limit: m.number("limit", 1, 5), Before: m.mark(), After: m.mark()}
	conditions := []func(){
		func() { filter.Recipient = &recipient.Hash{15: byte(m.number("recipient", 1, 2))} },
		func() {
			filter.Status = pick(m, "ended", store.Sent, store.Failed, store.Unknown, store.Delivered, store.Undelivered)
		},
		func() { filter.Status = pick(m, "status", store.Refused, store.Queued, store.Sending) },
		func() { filter.Channel = pick(m, "channel", recipient.Channels()...) },
		func() { filter.Purpose = pick(m, "purpose", "login", "gift", "nothing") },
		func() { filter.App = pick(m, "app", "shop", "desk", "' OR ''='") },
		func() { filter.BlockedBy = pick(m, "rule", "minute", "hour") },
		func() { filter.Reference = pick(m, "reference", "order 7", "a\x00\xff") },
		func() { filter.Provider = pick(m, "provider", "p", "q") },
		func() { filter.Country = pick(m, "country", "DE", "FR", "AT") },
		func() { filter.Domain = pick(m, "domain", "例子.中国", "example.com", "ple.com") },
		func() { filter.From = storetest.Epoch.Add(m.span("from")) },
		func() { filter.To = storetest.Epoch.Add(m.span("to")) },
		func() {
			filter.Outcome = pick(m, "code", store.CodeEntered, store.CodeWaiting, store.CodeExpired, store.CodeUsedUp,
				store.CodeCanceled, store.CodeOfCaller)
		},
	}
	for range m.number("conditions", 0, 3) {
		conditions[m.number("condition", 0, len(conditions)-1)]()
	}
	rows := m.same("Sends", func(f *storetest.Fixture) []any { return answers(f.Sends(m.ctx, filter)) }).([]store.SendOrRefusal)
	all := m.all()
	want := slices.DeleteFunc(all, func(s store.SendOrRefusal) bool { return !matches(filter, s) })
	if n := len(want) - filter.Limit; n > 0 && filter.After != nil {
		want = want[n:]
	} else {
		want = want[:min(len(want), filter.Limit)]
	}
	// of which matches knows nothing
	if g, w := storetest.Show(rows), storetest.Show(want); g != w && filter.Outcome == "" {
		m.Fatalf("%+v:\n got %s\nwant %s", filter, g, w)
	}
}

// matches reports whether a row matches the filter. It ignores Outcome and Limit.
func matches(f store.Filter, s store.SendOrRefusal) bool {
	at := func(c *store.Cursor) store.SendOrRefusal {
		return store.SendOrRefusal{Send: store.Send{ID: c.ID, LoggedAt: c.At}}
	}
	return (f.Recipient == nil || s.Recipient == *f.Recipient) && (f.Status == "" || s.Status == f.Status) &&
		(f.Channel == "" || s.Channel == f.Channel) && (f.Purpose == "" || s.Purpose == f.Purpose) &&
		(f.App == "" || s.App == f.App) && (f.BlockedBy == "" || s.BlockedBy == f.BlockedBy) &&
		(f.Reference == "" || s.Reference == f.Reference) && (f.Provider == "" || s.Provider == f.Provider) &&
		(f.Country == "" || s.Country == f.Country) && (f.Domain == "" || recipient.DomainOfMasked(s.To) == f.Domain) &&
		!s.LoggedAt.Before(f.From) && (f.To.IsZero() || s.LoggedAt.Before(f.To)) &&
		(f.Before == nil || store.CompareLogged(s, at(f.Before)) < 0) &&
		(f.After == nil || store.CompareLogged(s, at(f.After)) > 0)
}

// invariant: after every step the whole database is the same.
func (m *model) invariant(*rapid.T) {
	m.same("suppressions", func(f *storetest.Fixture) []any {
		return answers(f.Suppressions(m.ctx, store.SuppressionFilter{Limit: store.MaxPageRows}))
	})
	m.all()
}

func (m *model) all() []store.SendOrRefusal {
	return m.same("sends", func(f *storetest.Fixture) []any {
		return answers(f.Sends(m.ctx, store.Filter{Limit: store.MaxPageRows}))
	}).([]store.SendOrRefusal)
}
