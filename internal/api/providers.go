package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/logthrottle"
	"sendcode/internal/reports"
	"sendcode/internal/runbook"
	"sendcode/internal/server"
	"sendcode/internal/sns"
	"sendcode/quota"
)

// Ingester records what a provider reports. Implementation: *reports.ProviderEvents.
type eventIngester interface {
	Ingest(ctx context.Context, provider string, e reports.Event) (reports.Result, error)
}

// limiter stores used signatures, for all replicas if they share it. Implementation: gates.Gates.
type limiter interface {
	TakeOrLocal(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error)
	Refund(ctx context.Context, id string, buckets ...string) error
}

// onceRule admits each signature once. Its window covers the accepted age, clocks of providers that
// are ahead, and replicas whose clocks differ by a minute.
var onceRule = quota.Rule{Name: "once", Scope: "signature", Limit: 1, Window: 2*reports.MaxAge + time.Minute}

// providerEvents serves /v1/events, where mail providers report what became of mails.
type providerEvents struct {
	Topics        map[string]*sns.Topic // of sources with the scheme sns, by name
	Subscriptions subscriptions         // nil: there are no topics

	sources map[string]reports.Source
	events  eventIngester
	used    limiter
	count   func(provider, outcome string)
	logger  *slog.Logger
	lines   logthrottle.Throttle // about forged messages of topics
}

// NewProviderEvents returns the handlers for these sources. The limiter remembers used signatures.
// count is called with the outcome of each event, and of each request that was rejected.
func NewProviderEvents(sources []reports.Source, ingester eventIngester, limiter limiter,
	count func(provider, outcome string),
	logger *slog.Logger) *providerEvents {
	p := &providerEvents{sources: map[string]reports.Source{}, events: ingester, used: limiter, count: count,
		logger: logger,
		lines:  logthrottle.Throttle{Every: time.Minute}}
	for _, s := range sources {
		p.sources[s.Name] = s
	}
	return p
}

// Register adds the route.
func (p *providerEvents) Register(e *echo.Echo) { e.POST(server.EventsPath+":name", p.receive) }

// Outcomes of requests, beside the results of events.
const (
	forged      = "forged"
	malformed   = "malformed"
	replayed    = "replayed"
	unavailable = "unavailable"
)

// ProviderOutcomes returns all outcomes that are counted.
func ProviderOutcomes() []string {
	all := []string{forged, malformed, replayed, unavailable, subscribed, unconfirmed, unsubscribed}
	for _, r := range reports.Results {
		all = append(all, string(r))
	}
	return all
}

// readReport returns the body of a request that may have so many bytes. Error: a *server.Problem.
func readReport(r *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case err != nil:
		return nil, &server.Problem{Kind: server.BadRequest, Detail: "The body could not be read to its end."}
	case int64(len(body)) > most:
		return nil, &server.Problem{Kind: server.TooLarge,
			Detail: fmt.Sprintf("This body may have at most %d KiB.", most>>10)}
	}
	return body, nil
}

// receive handles POST /v1/events/{name}. It answers 204 to every valid report, even for unknown
// messages and events that are ignored, so that the provider does not send it again. While the
// database is away it answers 503, so that the provider does.
func (p *providerEvents) receive(c echo.Context) error {
	source, ok := p.sources[c.Param("name")]
	if !ok {
		return echo.ErrNotFound
	}
	body, err := readReport(c.Request(), reports.MaxBody)
	if err != nil {
		return err
	}
	if topic := p.Topics[source.Name]; topic != nil {
		return p.receiveFromTopic(c, source, topic, body)
	}
	if !source.Verify(c.Request().Header, body, time.Now()) {
		p.count(source.Name, forged)
		return &server.Problem{Kind: server.Unauthorized}
	}
	return p.ingest(c, source, body)
}

// ingest records the events of an authenticated body.
func (p *providerEvents) ingest(c echo.Context, source reports.Source, body []byte) error {
	all, err := source.Parse(body)
	if err != nil {
		p.count(source.Name, malformed)
		p.logger.WarnContext(c.Request().Context(), "provider events rejected: body not of the configured shape",
			"provider",
			source.Name, runbook.Events.See())
		return &server.Problem{Kind: server.MalformedJSON,
			Detail: "The body is not JSON of the shape that is configured."}
	}
	if err := p.ingestOnce(c.Request().Context(), source, body, all); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// ingestOnce records the events, unless their signature was used before. Some signatures do not
// cover the events: with a copied one an attacker could send any event. A repetition is no error,
// so that a provider whose first answer was lost does not go on.
func (p *providerEvents) ingestOnce(ctx context.Context, source reports.Source, body []byte,
	all []reports.Event) error {
	signature := source.ReplayKey(body)
	if signature == "" {
		return p.ingestAll(ctx, source.Name, all)
	}
	id, bucket := rand.Text(), quota.Bucket("provider", source.Name, signature)
	d, _, err := p.used.TakeOrLocal(ctx,
		quota.Request{ID: id, Rules: []quota.Rule{onceRule}, Buckets: map[quota.Scope]string{onceRule.Scope: bucket}})
	switch {
	case err != nil:
		return err
	case !d.Admitted:
		p.count(source.Name, replayed)
		return nil
	}
	if err = p.ingestAll(ctx, source.Name, all); err != nil { // the provider may repeat it
		// if it fails, the provider's repetition is rejected as used
		_ = p.used.Refund(context.WithoutCancel(ctx), id, bucket)
	}
	return err
}

// ingestAll records the events in order, up to the first error. Error: fault.Unavailable if the
// provider should send them again.
func (p *providerEvents) ingestAll(ctx context.Context, provider string, all []reports.Event) error {
	for _, e := range all {
		result, err := p.events.Ingest(ctx, provider, e)
		if err == nil {
			p.count(provider, string(result))
			continue
		}
		p.count(provider, unavailable)
		return err // the provider sends it again
	}
	return nil
}
