package records

import (
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/recipient"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/support"
)

// Suppression is a suppression in the JSON API. Missing values are null.
type Suppression struct {
	ID        string      `json:"id"`
	App       *string     `json:"app"`
	Channel   string      `json:"channel"`
	To        string      `json:"to"`
	Recipient string      `json:"recipient"`
	Reason    store.Cause `json:"reason"`
	Detail    *string     `json:"detail"`
	SendID    *string     `json:"send_id"`
	By        *string     `json:"by"`
	Since     string      `json:"since"`
	Until     string      `json:"until"`
	Active    bool        `json:"active"`
	LiftedAt  *string     `json:"lifted_at"`
	LiftedBy  *string     `json:"lifted_by"`
	LiftedWhy *string     `json:"lifted_reason"`
}

type liftedJSON struct {
	Lifted []Suppression `json:"lifted"`
}

// suppressions returns the list of present and past suppressions.
func (a *Records) suppressions() listing.List[store.SuppressionFilter, store.Suppression] {
	return listing.List[store.SuppressionFilter, store.Suppression]{
		Name: "suppressions", Path: "/admin/suppressions",
		Known: listing.Parameters[store.SuppressionFilter]{
			"state":     listing.Active(func(f *store.SuppressionFilter) *bool { return &f.Active }),
			"recipient": listing.Recipient(func(f *store.SuppressionFilter) **recipient.Hash { return &f.Recipient }),
		},
		Read: a.Store.Suppressions,
	}.Marked(func(f *store.SuppressionFilter) *int { return &f.Limit }, func(f *store.SuppressionFilter) **store.Mark { return &f.Before },
		func(r store.Suppression) store.Mark { return store.Mark{At: r.Since, ID: r.ID} })
}

func suppressionOf(s store.Suppression, now time.Time) Suppression {
	row := Suppression{
		ID: s.ID.String(), App: listing.Text(s.App), Channel: string(s.Channel), To: s.To, Recipient: s.Recipient.String(), Reason: s.Cause,
		Detail: listing.Text(s.Detail), By: listing.Text(s.By), Since: *listing.Stamp(s.Since), Until: *listing.Stamp(s.Until),
		Active:   s.Active(now),
		LiftedAt: listing.Stamp(s.LiftedAt), LiftedBy: listing.Text(s.LiftedBy), LiftedWhy: listing.Text(s.LiftedWhy),
	}
	if s.Send != uuid.Nil {
		row.SendID = listing.Text(s.Send.String())
	}
	return row
}

// SuppressionsOf returns suppressions for the JSON API.
func SuppressionsOf(list []store.Suppression, now time.Time) []Suppression {
	out := make([]Suppression, 0, len(list))
	for _, s := range list {
		out = append(out, suppressionOf(s, now))
	}
	return out
}

// wish is the body of a request to suppress a recipient. The recipient is never in a URL.
type wish struct {
	Channel string `json:"channel"`
	To      string `json:"to"`
	App     string `json:"app"`
	Reason  string `json:"reason"`
	For     *int64 `json:"for"` // seconds; adding alone
}

func (a *Records) suppressJSON(c echo.Context) error {
	var w wish
	if err := server.ReadJSON(c, &w); err != nil {
		return err
	}
	s, err := a.suppress(c, w)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, suppressionOf(s, s.Since))
}

// suppress suppresses a recipient and writes the audit entry with it.
func (a *Records) suppress(c echo.Context, w wish) (store.Suppression, error) {
	b := support.SuppressRequest{Channel: w.Channel, To: w.To, App: w.App, Why: w.Reason, By: auth.ActorOf(c).Name}
	if w.For != nil {
		most := int64(support.MaxSuppression / time.Second)
		if *w.For < 1 || *w.For > most {
			return store.Suppression{}, layout.Invalid("for", "out_of_range", "A suppression lasts for 1 s at least and 366 days at most.")
		}
		b.For = time.Duration(*w.For) * time.Second
	}
	act, err := a.Auth.Record(c, auth.ActionSuppress)
	if err != nil {
		return store.Suppression{}, err
	}
	b.Act = &act
	return a.Desk.Suppress(c.Request().Context(), b)
}

func (a *Records) liftJSON(c echo.Context) error {
	var w struct {
		Channel string `json:"channel"`
		To      string `json:"to"`
		App     string `json:"app"`
		Reason  string `json:"reason"`
	}
	if err := server.ReadJSON(c, &w); err != nil {
		return err
	}
	list, err := a.lift(c, support.LiftRequest{Channel: w.Channel, To: w.To, App: w.App, Why: w.Reason})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, liftedJSON{Lifted: SuppressionsOf(list, a.Now())})
}

// lift ends a recipient's suppressions and writes the audit entry with it.
func (a *Records) lift(c echo.Context, l support.LiftRequest) ([]store.Suppression, error) {
	act, err := a.Auth.Record(c, auth.ActionLift)
	if err != nil {
		return nil, err
	}
	l.By, l.Act = auth.ActorOf(c).Name, &act
	return a.Desk.Lift(c.Request().Context(), l)
}
