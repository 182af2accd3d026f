package records

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// actsView is the page of the audit log.
type actsView struct {
	layout.Page
	Rows []actView
	listing.Pages
	All     string // address without filters; empty: there are none
	Nothing string
}

type actView struct {
	At         texts.Clock
	Who        string
	On         string // masked, or the account; "–": no one
	Link       string // of the send that it was done to
	Deed, Why  string
	State      explain.Label
	From, Rest string
}

// actJSON is an audit entry in the JSON API. Missing values are null.
type actJSON struct {
	ID        string             `json:"id"`
	At        string             `json:"at"`
	Who       string             `json:"who"`
	Role      string             `json:"role"`
	Network   *string            `json:"network"`
	What      string             `json:"what"`
	App       *string            `json:"app"`
	Channel   *string            `json:"channel"`
	Purpose   *string            `json:"purpose"`
	To        *string            `json:"to"`
	Recipient *string            `json:"recipient"`
	Target    *string            `json:"target"`
	Reason    *string            `json:"reason"`
	Outcome   store.AuditOutcome `json:"outcome"`
	Detail    *string            `json:"detail"`
	Ends      *string            `json:"ends"`
}

// acts returns the list of audit entries.
func (a *Records) acts() listing.List[store.AuditFilter, store.AuditEntry] {
	return listing.List[store.AuditFilter, store.AuditEntry]{
		Name: "acts", Path: "/admin/acts",
		Known: listing.Parameters[store.AuditFilter]{
			"who":       listing.Word(func(f *store.AuditFilter) *string { return &f.Who }),
			"what":      listing.Word(func(f *store.AuditFilter) *string { return &f.What }),
			"recipient": listing.Recipient(func(f *store.AuditFilter) **recipient.Hash { return &f.Recipient }),
		},
		Read: func(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, time.Time, error) {
			list, err := a.Store.AuditEntries(ctx, f)
			return list, time.Time{}, err
		},
	}.Marked(func(f *store.AuditFilter) *int { return &f.Limit }, func(f *store.AuditFilter) **store.Mark { return &f.Before },
		func(r store.AuditEntry) store.Mark { return store.Mark{At: r.At, ID: r.ID} })
}

func actJSONOf(a store.AuditEntry, _ time.Time) actJSON {
	out := actJSON{
		ID: a.ID.String(), At: *listing.Stamp(a.At), Who: a.Who, Role: a.Role, Network: listing.Text(a.Network), What: a.What,
		App: listing.Text(a.App), Channel: listing.Text(string(a.Channel)), Purpose: listing.Text(a.Purpose), To: listing.Text(a.To),
		Target: listing.Text(a.Target), Reason: listing.Text(a.Reason), Outcome: a.Outcome, Detail: listing.Text(a.Detail),
	}
	if !a.Recipient.IsZero() {
		out.Recipient = listing.Text(a.Recipient.String())
	}
	if a.Ends != uuid.Nil {
		out.Ends = listing.Text(a.Ends.String())
	}
	return out
}

func (a *Records) actsPage(c echo.Context) error {
	p, err := a.acts().Find(c.Request().Context(), c.Request().URL.RawQuery, store.AuditFilter{})
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := actsView{Page: layout.NewPage(c, "acts.title", "acts"), Pages: p.Pages()}
	for _, act := range p.Rows {
		v.Rows = append(v.Rows, actViewOf(act, w))
	}
	if len(p.Rows) == 0 {
		v.Nothing = w.Get("acts.nothing")
	}
	if f := p.Filter; f.Who != "" || f.What != "" || f.Recipient != nil {
		v.All = "/admin/acts"
	}
	return a.Layout.Show(c, http.StatusOK, "acts", v)
}

var actTones = map[store.AuditOutcome]explain.Tone{store.AuditBegun: explain.Still, store.AuditDone: explain.Good,
	store.AuditFailed: explain.Bad}

var actSigns = map[store.AuditOutcome]string{store.AuditBegun: "…", store.AuditDone: "✓", store.AuditFailed: "✕"}

func actViewOf(a store.AuditEntry, w texts.Words) actView {
	v := actView{
		At: w.Exactly(a.At), Who: a.Who + " (" + w.Or("role", a.Role) + ")", On: cmp.Or(a.To, "–"),
		Deed: w.Or("deed", a.What), Why: a.Reason,
		State: explain.Label{Sign: actSigns[a.Outcome], Word: w.Or("outcome", string(a.Outcome)), Tone: actTones[a.Outcome]},
		From:  cmp.Or(a.Network, "–"), Rest: w.Or("detail", a.Detail),
	}
	if id, err := uuid.Parse(a.Target); err == nil {
		v.Link = explain.SendAddress(id)
	} else if a.To == "" && a.Target != "" {
		v.On = a.Target
	}
	return v
}
