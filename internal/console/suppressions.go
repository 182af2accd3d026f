package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/layout"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/support"
)

// suppressionJSON is a suppression as scripts see it. What it does not have is null.
type suppressionJSON struct {
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

type suppressionsJSON struct {
	Suppressions []suppressionJSON `json:"suppressions"`
	Next         *string           `json:"next"`
}

type liftedJSON struct {
	Lifted []suppressionJSON `json:"lifted"`
}

// suppressionNames are the parameters of the list of suppressions; "state" it has alone: active or all.
var suppressionNames = []string{"state", "recipient", "cursor", "limit"}

// parseSuppressions reads the address of a list of suppressions, as parseQuery does that of a list of sends.
func parseSuppressions(raw, state string) (store.SuppressionFilter, url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		_, err := parseQuery(raw, time.Time{})
		return store.SuppressionFilter{}, nil, err
	}
	f, shared := store.SuppressionFilter{}, url.Values{}
	for name, list := range values {
		switch {
		case !slices.Contains(suppressionNames, name):
			return f, nil, layout.Invalid(safeName(name), "unknown", "There is no such parameter.")
		case len(list) > 1:
			return f, nil, layout.Invalid(name, "repeated", "Give this parameter once.")
		case name != "state":
			shared[name] = list
		case list[0] != "":
			state = list[0]
		}
	}
	if state != "active" && state != "all" {
		return f, nil, layout.Invalid("state", "invalid", "A state is active or all.")
	}
	q, err := parseQuery(shared.Encode(), time.Time{})
	f.Active, f.Recipient, f.Before, f.Limit = state == "active", q.filter.Recipient, q.filter.Before, q.filter.Limit
	return f, values, err
}

// findSuppressions reads one page, and says where the next one begins; "" where there is none.
func (a *Console) findSuppressions(ctx context.Context, f store.SuppressionFilter) (list []store.Suppression, now time.Time, next string, err error) {
	list, now, err = a.Log.Suppressions(ctx, f)
	if err == nil {
		next, err = cursorAfter(list, f.Limit, func(s store.Suppression) store.Mark { return store.Mark{At: s.Since, ID: s.ID} }, func(last store.Mark) ([]store.Suppression, error) {
			f.Before, f.Limit = &last, 1
			more, _, err := a.Log.Suppressions(ctx, f)
			return more, err
		})
	}
	return list, now, next, err
}

func (a *Console) suppressionsJSON(c echo.Context) error {
	f, _, err := parseSuppressions(c.Request().URL.RawQuery, "all")
	if err != nil {
		return err
	}
	list, now, next, err := a.findSuppressions(c.Request().Context(), f)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, suppressionsJSON{Suppressions: suppressionsOf(list, now), Next: text(next)})
}

func suppressionsOf(list []store.Suppression, now time.Time) []suppressionJSON {
	out := make([]suppressionJSON, 0, len(list))
	for _, s := range list {
		row := suppressionJSON{
			ID: s.ID.String(), App: text(s.App), Channel: string(s.Channel), To: s.To, Recipient: s.Recipient.String(), Reason: s.Cause,
			Detail: text(s.Detail), By: text(s.By), Since: *stamp(s.Since), Until: *stamp(s.Until), Active: s.Active(now),
			LiftedAt: stamp(s.LiftedAt), LiftedBy: text(s.LiftedBy), LiftedWhy: text(s.LiftedWhy),
		}
		if s.Send != uuid.Nil {
			row.SendID = text(s.Send.String())
		}
		out = append(out, row)
	}
	return out
}

// wish is what is asked for a recipient's suppression. The recipient is in a body, never in an address.
type wish struct {
	Channel string `json:"channel"`
	To      string `json:"to"`
	App     string `json:"app"`
	Reason  string `json:"reason"`
	For     *int64 `json:"for"` // seconds; adding alone
}

func (a *Console) suppressJSON(c echo.Context) error {
	var w wish
	if err := server.ReadJSON(c, &w); err != nil {
		return err
	}
	s, err := a.suppress(c, w)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, suppressionsOf([]store.Suppression{s}, s.Since)[0])
}

// suppress has a recipient get no mail, and the act recorded with it.
func (a *Console) suppress(c echo.Context, w wish) (store.Suppression, error) {
	b := support.SuppressRequest{Channel: w.Channel, To: w.To, App: w.App, Why: w.Reason, By: auth.ActorOf(c).Name}
	if w.For != nil {
		most := int64(support.MaxSuppression / time.Second)
		if *w.For < 1 || *w.For > most {
			return store.Suppression{}, layout.Invalid("for", "out_of_range", "A suppression lasts for 1 s at least and 366 days at most.")
		}
		b.For = time.Duration(*w.For) * time.Second
	}
	act, err := a.auth.Record(c, auth.ActionSuppress)
	if err != nil {
		return store.Suppression{}, err
	}
	b.Act = &act
	return a.Codes.Suppress(c.Request().Context(), b)
}

func (a *Console) liftJSON(c echo.Context) error {
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
	return c.JSON(http.StatusOK, liftedJSON{Lifted: suppressionsOf(list, a.Now())})
}

// lift has a recipient get mail again, and the act recorded with it.
func (a *Console) lift(c echo.Context, l support.LiftRequest) ([]store.Suppression, error) {
	act, err := a.auth.Record(c, auth.ActionLift)
	if err != nil {
		return nil, err
	}
	l.By, l.Act = auth.ActorOf(c).Name, &act
	return a.Codes.Lift(c.Request().Context(), l)
}
