package records

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// The webhook events of apps and whether they arrived, to find out why a back end did not hear of something.

// Event is a webhook event in the JSON API. Every member is always present, some as null.
type Event struct {
	ID             string           `json:"id"`
	App            string           `json:"app"`
	Type           string           `json:"type"`
	At             string           `json:"at"`
	VerificationID string           `json:"verification_id"`
	SendID         *string          `json:"send_id"`
	Channel        string           `json:"channel"`
	Purpose        string           `json:"purpose"`
	To             string           `json:"to"`
	Status         string           `json:"status"`
	Reason         *string          `json:"reason"`
	Reference      *string          `json:"reference"`
	Test           bool             `json:"test"`
	State          store.EventState `json:"state"`
	Attempts       int              `json:"attempts"`
	DueAt          *string          `json:"due_at"`
	EndedAt        *string          `json:"ended_at"`
	Answer         *string          `json:"answer"`
}

// eventsView is the page.
type eventsView struct {
	layout.Page
	State []layout.Option
	App   string
	Any   bool
	Rows  []eventView
	listing.Pages
	Nothing string
}

type eventView struct {
	Link                                string
	At                                  texts.Clock
	Type, App, To, Answer, Again, Tries string
	State                               explain.Label
}

var eventTones = map[store.EventState]explain.Label{
	store.EventPending:   {Sign: "…", Tone: explain.Still},
	store.EventDelivered: {Sign: "✓", Tone: explain.Good},
	store.EventGivenUp:   {Sign: "✕", Tone: explain.Bad},
}

// events returns the list of webhook events.
func (a *Records) events() listing.List[store.AppEventFilter, store.AppEvent] {
	return listing.List[store.AppEventFilter, store.AppEvent]{
		Name: "events", Path: "/admin/webhooks",
		Known: listing.Parameters[store.AppEventFilter]{
			"app": setEventApp, "state": setEventState, "cursor": setEventCursor,
			"limit": listing.Limit(func(f *store.AppEventFilter) *int { return &f.Limit }),
		},
		Read: func(ctx context.Context, f store.AppEventFilter) ([]store.AppEvent, time.Time, error) {
			list, err := a.Store.AppEvents(ctx, f)
			return list, a.Now(), err
		},
		Bound: func(f *store.AppEventFilter) *int { return &f.Limit },
		Next: func(f *store.AppEventFilter, last store.AppEvent) string {
			f.Before = last.ID
			return last.ID.String()
		},
		Later: func(f store.AppEventFilter) bool { return f.Before != uuid.Nil },
	}
}

func setEventApp(f *store.AppEventFilter, value string, _ time.Time) string {
	if f.App = value; len(value) > 64 || strings.ContainsFunc(value,
		func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) }) {
		return "An app's name has at most 32 of a-z 0-9 _ -."
	}
	return ""
}

func setEventState(f *store.AppEventFilter, value string, _ time.Time) string {
	if f.State = store.EventState(value); eventTones[f.State].Sign == "" {
		return "A state is pending, delivered or given_up."
	}
	return ""
}

func setEventCursor(f *store.AppEventFilter, value string, _ time.Time) string {
	id, err := uuid.Parse(value)
	if f.Before = id; err != nil || id.String() != value {
		return "A cursor is passed back as the list before gave it."
	}
	return ""
}

func eventJSONOf(e store.AppEvent, _ time.Time) Event {
	row := Event{
		ID: e.ID.String(), App: e.App, Type: e.Type, At: *listing.Stamp(e.At), VerificationID: e.VerificationID, Channel: string(e.Channel),
		Purpose: e.Purpose, To: e.To, Status: e.Status, Reason: listing.Text(e.Reason), Reference: listing.Text(e.Reference), Test: e.Test,
		State: e.State, Attempts: e.Attempt, DueAt: listing.Stamp(e.DueAt), EndedAt: listing.Stamp(e.EndedAt), Answer: listing.Text(e.Answer),
	}
	if e.SendID != uuid.Nil {
		row.SendID = listing.Text(e.SendID.String())
	}
	return row
}

func (a *Records) eventsPage(c echo.Context) error {
	p, err := a.events().Find(c.Request().Context(), c.Request().URL.RawQuery, store.AppEventFilter{})
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := eventsView{Page: layout.NewPage(c, "events.title", "webhooks"), Pages: p.Pages(), App: p.Filter.App,
		Any: p.Filter.App != "" || p.Filter.State != ""}
	for _, state := range []store.EventState{"", store.EventPending, store.EventDelivered, store.EventGivenUp} {
		key := "events.state." + cmp.Or(string(state), "any")
		v.State = append(v.State, layout.Option{Value: string(state), Text: w.Get(key), Chosen: state == p.Filter.State})
	}
	for _, e := range p.Rows {
		v.Rows = append(v.Rows, eventViewOf(e, p.Now, w))
	}
	if len(p.Rows) == 0 {
		v.Nothing = w.Get("events.nothing")
	}
	return a.Layout.Show(c, http.StatusOK, "events", v)
}

func eventViewOf(e store.AppEvent, now time.Time, w texts.Words) eventView {
	v := eventView{
		At: w.Exactly(e.At), Type: e.Type, App: e.App, To: cmp.Or(e.To, "–"), Answer: cmp.Or(e.Answer, "–"),
		Tries: "×" + strconv.Itoa(e.Attempt), State: eventTones[e.State],
	}
	v.State.Word = w.Or("events.state", string(e.State))
	if e.SendID != uuid.Nil {
		v.Link = explain.SendAddress(e.SendID)
	}
	if e.State == store.EventPending && e.Attempt > 0 {
		v.Again = w.Get("events.again", "wait", w.Wait(max(0, e.DueAt.Sub(now))))
	}
	return v
}
