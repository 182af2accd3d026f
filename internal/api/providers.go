package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/events"
	"sendcode/internal/feedback"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// Ingester records what a provider reports. Implementation: *feedback.Providers.
type Ingester interface {
	Ingest(ctx context.Context, t feedback.ProviderEvent) (feedback.Result, error)
}

// Providers answers mail providers, which tell what became of mails.
type Providers struct {
	sources map[string]events.Source
	events  Ingester
	used    signatures
	count   func(provider, outcome string)
	logger  *slog.Logger
	now     func() time.Time
}

// NewProviders makes it for the sources given. The limiter remembers used signatures. count hears of every event and of every
// request that was none.
func NewProviders(sources []events.Source, h Ingester, limiter Limiter, count func(provider, outcome string),
	logger *slog.Logger) *Providers {
	p := &Providers{sources: map[string]events.Source{}, events: h, count: count, logger: logger, now: time.Now}
	p.used = signatures{limiter, quota.NewMemory(func() time.Time { return p.now() }, "process")}
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
	replayed    = "replayed"
	unmapped    = "unmapped"
	unavailable = "unavailable"
)

// ProviderOutcomes are all that are counted.
var ProviderOutcomes = []string{
	string(store.ProviderDelivered), string(store.ProviderBounced), string(store.ProviderComplained), string(store.ProviderOptedOut),
	string(feedback.Repeated), string(feedback.UnknownMessage), string(feedback.OtherRecipient), string(events.Ignored),
	unmapped, forged, malformed, replayed, unavailable,
}

// hear answers 204 for everything that telling again would not change: also for messages that are not known here, and for events
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
	if err := p.once(c.Request().Context(), source, body, all); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// once takes the events, unless their signature was used before: one that does not cover the events themselves would let who has
// seen it tell anything. The answer to a repetition is the same, so that a provider whose first answer was lost does not go on.
func (p *Providers) once(ctx context.Context, source events.Source, body []byte, all []events.Event) error {
	signature, single := source.Signature(body)
	if !single {
		return p.each(ctx, source.Name, all)
	}
	undo, fresh, err := p.used.use(ctx, source.Name, signature)
	switch {
	case err != nil:
		return err
	case !fresh:
		p.count(source.Name, replayed)
		return nil
	}
	if err := p.each(ctx, source.Name, all); err != nil {
		undo()
		return err
	}
	return nil
}

func (p *Providers) each(ctx context.Context, provider string, all []events.Event) error {
	for _, e := range all {
		outcome, err := p.one(ctx, provider, e)
		p.count(provider, outcome)
		switch {
		case errors.Is(err, store.ErrUnavailable):
			return verification.ErrUnavailable // the provider sends it again
		case err != nil:
			return err
		}
	}
	return nil
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
	heard, err := p.events.Ingest(ctx, feedback.ProviderEvent{
		Provider: provider, Kind: kind, NoMailbox: e.Outcome == events.Gone, Send: e.Send, To: e.To, At: e.At, Detail: e.Detail,
		Enhanced: events.Enhanced(e.Detail),
	})
	switch {
	case err != nil:
		return unavailable, err
	case heard == feedback.Recorded:
		return string(kind), nil
	}
	return string(heard), nil
}
