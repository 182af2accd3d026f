package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// What apps are told of, and whether it arrived: for who asks why a back end did not hear of something.

type eventsJSON struct {
	Events []eventJSON `json:"events"`
	Next   *string     `json:"next"`
}

// eventJSON is an event as scripts see it. Every member is always there; what an event does not have is null.
type eventJSON struct {
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
	State   []layout.Option
	App     string
	Any     bool
	Rows    []eventView
	Older   string
	Newest  string
	Nothing string
}

type eventView struct {
	Link                                string
	At                                  texts.Clock
	Type, App, To, Answer, Again, Tries string
	State                               stateView
}

var eventTones = map[store.EventState]stateView{
	store.EventPending:   {Sign: "…", Tone: explain.Still},
	store.EventDelivered: {Sign: "✓", Tone: explain.Good},
	store.EventGivenUp:   {Sign: "✕", Tone: explain.Bad},
}

// eventQuery is what a list of events is asked for.
type eventQuery struct {
	filter store.AppEventFilter
	given  url.Values
}

// parseEventQuery reads an address's raw query, as parseQuery does.
func parseEventQuery(raw string) (eventQuery, error) {
	q := eventQuery{filter: store.AppEventFilter{Limit: defaultLimit}, given: url.Values{}}
	err := eachParameter(raw, func(name, value string) error {
		if value != "" {
			q.given.Set(name, value)
		}
		if reason, detail := q.set(name, value); detail != "" {
			return layout.Invalid(safeName(name), reason, detail)
		}
		return nil
	})
	return q, err
}

// set takes one parameter; an empty value is none.
func (q *eventQuery) set(name, value string) (reason, detail string) {
	f := &q.filter
	switch name {
	case "app":
		if f.App = value; len(value) > maxWord || strings.ContainsFunc(value, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) }) {
			return "invalid", "An app's name has at most 32 of a-z 0-9 _ -."
		}
	case "state":
		if f.State = store.EventState(value); value != "" && eventTones[f.State].Sign == "" {
			return "invalid", "A state is pending, delivered or given_up."
		}
	case "cursor":
		id, err := uuid.Parse(value)
		if f.Before = id; value != "" && (err != nil || id.String() != value) {
			return "invalid", "A cursor is passed back as the list before gave it."
		}
	case "limit":
		if value == "" {
			break
		}
		n, err := strconv.Atoi(value)
		if f.Limit = n; err != nil || n < 1 || n > maxLimit {
			return "invalid", "A limit is a number from 1 to 200."
		}
	default:
		return "unknown", "There is no such parameter."
	}
	return "", ""
}

// findEvents reads one page, and the cursor of the next one where there is one.
func (a *Console) findEvents(c echo.Context, f store.AppEventFilter) (events []store.AppEvent, next string, err error) {
	ctx := c.Request().Context()
	if events, err = a.Log.AppEvents(ctx, f); err != nil {
		return nil, "", err
	}
	more, err := goesOn(events, f.Limit, func(last store.AppEvent) ([]store.AppEvent, error) {
		f.Before, f.Limit, next = last.ID, 1, last.ID.String()
		return a.Log.AppEvents(ctx, f)
	})
	if !more {
		next = ""
	}
	return events, next, err
}

func (a *Console) eventsJSON(c echo.Context) error {
	q, err := parseEventQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	events, next, err := a.findEvents(c, q.filter)
	if err != nil {
		return err
	}
	out := eventsJSON{Events: []eventJSON{}, Next: text(next)}
	for _, e := range events {
		row := eventJSON{
			ID: e.ID.String(), App: e.App, Type: e.Type, At: *stamp(e.At), VerificationID: e.VerificationID, Channel: string(e.Channel),
			Purpose: e.Purpose, To: e.To, Status: e.Status, Reason: text(e.Reason), Reference: text(e.Reference), Test: e.Test,
			State: e.State, Attempts: e.Attempt, DueAt: stamp(e.DueAt), EndedAt: stamp(e.EndedAt), Answer: text(e.Answer),
		}
		if e.SendID != uuid.Nil {
			row.SendID = text(e.SendID.String())
		}
		out.Events = append(out.Events, row)
	}
	return c.JSON(http.StatusOK, out)
}

func (a *Console) eventsPage(c echo.Context) error {
	q, err := parseEventQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	events, next, err := a.findEvents(c, q.filter)
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := eventsView{Page: layout.Page{W: w, Title: w.Get("events.title"), In: true, Here: "webhooks"}, App: q.filter.App}
	v.Any = q.filter.App != "" || q.filter.State != ""
	for _, state := range []store.EventState{"", store.EventPending, store.EventDelivered, store.EventGivenUp} {
		key := "events.state." + cmp.Or(string(state), "any")
		v.State = append(v.State, layout.Option{Value: string(state), Text: w.Get(key), Chosen: state == q.filter.State})
	}
	for _, e := range events {
		v.Rows = append(v.Rows, eventViewOf(e, a.Now(), w))
	}
	if len(events) == 0 {
		v.Nothing = w.Get("events.nothing")
	}
	if next != "" {
		v.Older = eventsAddress(q.given, next)
	}
	if q.filter.Before != uuid.Nil {
		v.Newest = eventsAddress(q.given, "")
	}
	return a.layout.Show(c, http.StatusOK, "events", v)
}

// eventsAddress is the page's with another cursor.
func eventsAddress(given url.Values, cursor string) string {
	next := maps.Clone(given)
	next.Del("cursor")
	if cursor != "" {
		next.Set("cursor", cursor)
	}
	if len(next) == 0 {
		return "/admin/webhooks"
	}
	return "/admin/webhooks?" + next.Encode()
}

func eventViewOf(e store.AppEvent, now time.Time, w texts.Words) eventView {
	v := eventView{
		At: texts.Clock{Time: e.At, Exact: true}, Type: e.Type, App: e.App, To: cmp.Or(e.To, "–"), Answer: cmp.Or(e.Answer, "–"),
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
