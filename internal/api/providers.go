package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/events"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// Hearer takes what a provider tells. Implementation: verification.Service.
type Hearer interface {
	Hear(ctx context.Context, t verification.Told) (verification.Hearing, error)
}

// Providers answers mail providers, which tell what became of mails.
type Providers struct {
	sources map[string]events.Source
	hearer  Hearer
	count   func(provider, outcome string)
	logger  *slog.Logger
	now     func() time.Time
}

// NewProviders makes it for the sources given. count hears of every event and of every request that was none.
func NewProviders(sources []events.Source, h Hearer, count func(provider, outcome string), logger *slog.Logger) *Providers {
	p := &Providers{sources: map[string]events.Source{}, hearer: h, count: count, logger: logger, now: time.Now}
	for _, s := range sources {
		p.sources[s.Name] = s
	}
	return p
}

// Register adds the route.
func (p *Providers) Register(e *echo.Echo) { e.POST(server.EventsPath+":name", p.hear) }

// Outcomes of requests and events that are not the use case's.
const (
	forged      = "forged"
	malformed   = "malformed"
	unmapped    = "unmapped"
	unavailable = "unavailable"
)

// ProviderOutcomes are all that are counted.
var ProviderOutcomes = []string{
	string(store.ProviderDelivered), string(store.ProviderBounced), string(store.ProviderComplained), string(store.ProviderOptedOut), string(verification.Repeated),
	string(verification.UnknownMessage), string(verification.OtherRecipient), string(events.Ignored), unmapped, forged, malformed, unavailable,
}

// hear answers 204 for everything that telling again would not change: also for messages that nobody knows, and for events
// that mean nothing here. Only while the log is away a provider is asked to come again.
func (p *Providers) hear(c echo.Context) error {
	source, ok := p.sources[c.Param("name")]
	if !ok {
		return echo.ErrNotFound
	}
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, events.MaxBody+1))
	switch {
	case err != nil:
		return &server.Problem{Kind: server.BadRequest, Detail: "The body could not be read to its end."}
	case len(body) > events.MaxBody:
		return &server.Problem{Kind: server.TooLarge, Detail: "Events may come in at most 1 MiB at once."}
	}
	if err := source.Verify(c.Request().Header, body, p.now()); err != nil {
		p.count(source.Name, forged)
		return &server.Problem{Kind: server.Unauthorized}
	}
	all, err := source.Parse(body)
	if err != nil {
		p.count(source.Name, malformed)
		p.logger.WarnContext(c.Request().Context(), "a provider's events could not be read", "provider", source.Name)
		return &server.Problem{Kind: server.MalformedJSON, Detail: "The body is not JSON of the shape that is configured."}
	}
	for _, e := range all {
		outcome, err := p.one(c.Request().Context(), source.Name, e)
		p.count(source.Name, outcome)
		if err != nil {
			return err
		}
	}
	return c.NoContent(http.StatusNoContent)
}

var kinds = map[events.Outcome]store.ProviderEventKind{
	events.Delivered: store.ProviderDelivered, events.Bounced: store.ProviderBounced, events.Gone: store.ProviderBounced,
	events.Complained: store.ProviderComplained, events.OptedOut: store.ProviderOptedOut,
}

func (p *Providers) one(ctx context.Context, provider string, e events.Event) (outcome string, err error) {
	kind, means := kinds[e.Outcome]
	if !means {
		if !e.Known {
			return unmapped, nil
		}
		return string(events.Ignored), nil
	}
	heard, err := p.hearer.Hear(ctx, verification.Told{
		Provider: provider, Kind: kind, Gone: e.Outcome == events.Gone, Send: e.Send, To: e.To, At: e.At, Detail: e.Detail, Enhanced: events.Enhanced(e.Detail),
	})
	switch {
	case err != nil:
		return unavailable, err
	case heard == verification.Recorded:
		return string(kind), nil
	}
	return string(heard), nil
}
