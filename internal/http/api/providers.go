package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sns"
	"sendcode/internal/http/server"
	"sendcode/quota"
)

// eventIngester records the events that a provider reports. Implementation:
// *feedback.ProviderEvents.
type eventIngester interface {
	Ingest(ctx context.Context, provider string, e feedback.Event) (feedback.IngestResult, error)
	IngestMail(ctx context.Context, provider string, mail []byte) (feedback.IngestResult, error)
}

// replayGuard stores used signatures; replicas that share it know each other's. Implementation:
// gates.Gates.
type replayGuard interface {
	TakeOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error)
	Refund(ctx context.Context, id string, buckets ...string) error
}

// replayRule admits each signature once. Its window is as long as the accepted age, plus a margin
// for clocks of providers that are ahead, and for replicas whose clocks differ by a minute.
var replayRule = quota.Rule{Name: "once", Scope: "signature", Limit: 1, Window: feedback.MaxMailgunAge + feedback.MaxAge + time.Minute}

// EventHandlers serves /v1/events, where mail providers report what became of mails.
type EventHandlers struct {
	Sources       map[string]feedback.Source // by name
	Topics        map[string]*sns.Topic      // of sources with the scheme sns, by name
	Subscriptions subscriptionConfirmer      // nil: there are no topics
	Events        eventIngester
	Used          replayGuard                    // remembers used signatures
	Count         func(provider, outcome string) // of each event, and of each request that was rejected
	Logger        *slog.Logger

	lines logs.Throttle // about forged messages of topics
}

// Register adds the route.
func (eh *EventHandlers) Register(e *echo.Echo) {
	e.POST(server.ProviderEventsPath+":name", eh.receive)
}

// Outcomes of requests, beside the results of events.
const (
	outcomeForged      = "forged"
	outcomeMalformed   = "malformed"
	outcomeReplayed    = "replayed"
	outcomeUnavailable = "unavailable"
)

// ProviderOutcomes returns all outcomes that are counted.
func ProviderOutcomes() []string {
	all := []string{
		outcomeForged, outcomeMalformed, outcomeReplayed, outcomeUnavailable, outcomeSubscribed, outcomeUnconfirmed,
		outcomeSubscriptionEnded,
	}
	for _, r := range feedback.IngestResults {
		all = append(all, string(r))
	}
	return all
}

// readBody returns the body of a request, of at most the given number of bytes. Error: a
// *server.Problem.
func readBody(r *http.Request, most int64) ([]byte, error) {
	var body []byte
	var err error
	if r.ContentLength <= most {
		body, err = io.ReadAll(io.LimitReader(r.Body, most+1))
	}
	switch {
	case err != nil:
		return nil, server.UnreadableBodyProblem(err)
	case max(r.ContentLength, int64(len(body))) > most:
		return nil, &server.Problem{
			Kind:   server.TooLarge,
			Detail: fmt.Sprintf("This body may have at most %d KiB.", most>>10),
		}
	}
	return body, nil
}

// receive handles POST /v1/events/{name}. It answers 204 (to Mailgun 200) to every valid report,
// even for unknown messages and ignored events, so that the provider does not send the report
// again. While the database is away it answers 503, so that the provider does send it again.
func (eh *EventHandlers) receive(c echo.Context) error {
	source, ok := eh.Sources[c.Param("name")]
	if !ok {
		return echo.ErrNotFound
	}
	if !source.CouldVerify(c.Request().Header, time.Now()) {
		eh.Count(source.Name, outcomeForged)
		return &server.Problem{Kind: server.Unauthorized}
	}
	body, err := readBody(c.Request(), feedback.MaxBodyBytes)
	if err != nil {
		return err
	}
	if topic := eh.Topics[source.Name]; topic != nil {
		return eh.receiveFromTopic(c, source, topic, body)
	}
	if !source.Verify(c.Request().Header, body, time.Now()) {
		eh.Count(source.Name, outcomeForged)
		return &server.Problem{Kind: server.Unauthorized}
	}
	if source.Auth.Scheme == feedback.SchemeDSN {
		return eh.ingestMail(c, source.Name, body)
	}
	return eh.ingest(c, source, body)
}

// ingestMail records the events in a bounce mail. It answers 204 for every mail: strangers write
// mails, and the poster cannot correct their mistakes.
func (eh *EventHandlers) ingestMail(c echo.Context, provider string, mail []byte) error {
	kind, _, _ := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	err := server.RefuseCoding(c.Request())
	if err == nil && kind != "message/rfc822" {
		err = &server.Problem{Kind: server.UnsupportedMedia, Detail: "Send the mail with Content-Type: message/rfc822."}
	}
	if err != nil {
		eh.Count(provider, outcomeMalformed)
		return err
	}
	result, err := eh.Events.IngestMail(c.Request().Context(), provider, mail)
	if err = eh.counted(provider, result, err); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// ingest records the events of an authenticated body.
func (eh *EventHandlers) ingest(c echo.Context, source feedback.Source, body []byte) error {
	if err := server.RefuseCoding(c.Request()); err != nil {
		eh.Count(source.Name, outcomeMalformed)
		return err
	}
	all, err := source.Parse(body)
	if err != nil {
		eh.Count(source.Name, outcomeMalformed)
		eh.Logger.WarnContext(c.Request().Context(), "provider events rejected: body not of the configured shape",
			"provider",
			source.Name, logs.SeeEvents)
		return &server.Problem{
			Kind:   server.MalformedJSON,
			Detail: "The body is not JSON of the shape that is configured.",
		}
	}
	if err := eh.ingestOnce(c.Request().Context(), source, body, all); err != nil {
		return err
	}
	if source.Auth.Scheme == feedback.SchemeMailgun { // Mailgun repeats a request unless the answer is 200 (see feedback.MaxMailgunAge)
		return c.NoContent(http.StatusOK)
	}
	return c.NoContent(http.StatusNoContent)
}

// ingestOnce records the events, unless their signature was used before. Some signatures do not
// cover the events, so an attacker with a copied signature could send any event. A repeated request
// is no error, so that a provider that did not get the first answer stops sending it.
func (eh *EventHandlers) ingestOnce(ctx context.Context, source feedback.Source, body []byte,
	all []feedback.Event,
) error {
	signature := source.ReplayKey(body)
	if signature == "" {
		return eh.ingestAll(ctx, source.Name, all)
	}
	id, bucket := rand.Text(), quota.Bucket("provider", source.Name, signature)
	d, err := eh.Used.TakeOrLocal(ctx,
		quota.Request{ID: id, Rules: []quota.Rule{replayRule}, Buckets: map[quota.Scope]string{replayRule.Scope: bucket}})
	switch {
	case err != nil:
		return err
	case !d.Admitted:
		eh.Count(source.Name, outcomeReplayed)
		return nil
	}
	if err = eh.ingestAll(ctx, source.Name, all); err != nil {
		// The refund lets the provider send the same signature again. If the refund fails, the
		// repeated request is rejected as used.
		_ = eh.Used.Refund(context.WithoutCancel(ctx), id, bucket)
	}
	return err
}

// maxListTime is how long after the first event of a list the recording of a further event may
// begin.
const maxListTime = time.Minute

// ingestAll records the events in order, until the first error or for maxListTime. It continues
// after the provider has hung up: otherwise the provider would send the whole list again, and hang
// up again. Error: fault.Unavailable if the provider should send the events again.
func (eh *EventHandlers) ingestAll(ctx context.Context, provider string, all []feedback.Event) error {
	began := time.Now()
	for _, e := range all {
		if time.Since(began) >= maxListTime {
			return eh.counted(provider, "", fault.Unavailable)
		}
		result, err := eh.Events.Ingest(context.WithoutCancel(ctx), provider, e) // each statement then has a deadline of its own
		if err = eh.counted(provider, result, err); err != nil {
			return err
		}
	}
	return nil
}

// counted counts a result, or that there is none, and returns the error: then the provider sends
// the event again.
func (eh *EventHandlers) counted(provider string, result feedback.IngestResult, err error) error {
	if err != nil {
		result = outcomeUnavailable
	}
	eh.Count(provider, string(result))
	return err
}
