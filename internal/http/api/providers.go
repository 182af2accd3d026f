package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// replayRule admits each signature with only one body. Its window is the greatest accepted age plus
// a margin. The margin covers providers whose clocks are ahead, and replicas whose clocks differ by
// up to a minute.
var replayRule = quota.Rule{Name: "once", Scope: "signature", Limit: 1, Window: feedback.MaxMailgunAge + feedback.MaxAge + time.Minute}

// EventHandlers serves /v1/events, where mail providers report what became of mails.
type EventHandlers struct {
	Sources       map[string]feedback.Source // by name
	Topics        map[string]*sns.Topic      // of sources with the scheme sns, by name
	Subscriptions subscriptionConfirmer      // nil: there are no topics
	Events        eventIngester
	Use           func(ctx context.Context, r quota.Request) (quota.Decision, error) // counts a used signature; replicas share the counts
	Count         func(provider, outcome string)                                     // each event's result, or the outcome of a request
	Logger        *slog.Logger

	lines logs.Throttle // throttles log lines about forged messages of topics
}

// Register adds the route.
func (eh *EventHandlers) Register(e *echo.Echo) {
	e.POST(server.ProviderEventsPath+":name", eh.receive)
}

// These are outcomes of requests, besides the results of events.
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

// receive handles POST /v1/events/{name}. It answers 204 (200 to Mailgun) to every valid report,
// even if the message is unknown or the event is ignored, so that the provider does not repeat the
// report. If the database is down, it answers 503, so that the provider repeats the report.
func (eh *EventHandlers) receive(c echo.Context) error {
	source, ok := eh.Sources[c.Param("name")]
	if !ok {
		return echo.ErrNotFound
	}
	if !source.CouldVerify(c.Request().Header, time.Now()) {
		eh.Count(source.Name, outcomeForged)
		return &server.Problem{Kind: server.Unauthorized}
	}
	body, err := server.ReadBody(c.Request(), feedback.MaxBodyBytes)
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
	server.SetAnswerTime(c, 2*maxListTime) // long enough even if the last event of a list waits for the database
	if source.Auth.Scheme == feedback.SchemeDSN {
		return eh.ingestMail(c, source.Name, body)
	}
	return eh.ingest(c, source, body)
}

// ingestMail records the events in a bounce mail. It answers 204 even if it cannot use the mail,
// because strangers write these mails, and the sender of the request cannot correct them.
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

// ingestOnce records the events, unless their signature was used with another body before. Some
// signatures do not cover the events, so an attacker with a copied signature could send any event.
// Such a request gets a success and changes nothing.
func (eh *EventHandlers) ingestOnce(ctx context.Context, source feedback.Source, body []byte,
	all []feedback.Event,
) error {
	signature := source.ReplayKey(body)
	if signature == "" {
		return eh.ingestAll(ctx, source.Name, all)
	}
	// A repetition has the same body, so it is the same request, and is recorded again: the first
	// may have failed, or its process may have been killed.
	sum := sha256.Sum256(body)
	d, err := eh.Use(ctx, quota.Request{
		ID: hex.EncodeToString(sum[:]), Repeated: true, Rules: []quota.Rule{replayRule},
		Buckets: map[quota.Scope]string{replayRule.Scope: quota.Bucket("provider", source.Name, signature)},
	})
	switch {
	case err != nil:
		return err
	case !d.Admitted:
		eh.Count(source.Name, outcomeReplayed)
		return nil
	}
	return eh.ingestAll(ctx, source.Name, all)
}

// maxListTime bounds how long the events of one request are recorded. After that time, no further
// event of the request is begun.
const maxListTime = time.Minute

// ingestAll records the events in order. It stops at the first error or after maxListTime. It does
// not stop if the provider hangs up, because the provider would send the whole list again and hang
// up again, without any progress. After maxListTime, the error is fault.Unavailable, so that the
// provider sends the events again. Other errors are those of Ingest.
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

// counted counts the result of an event and returns err. If err is not nil, it counts the outcome
// "unavailable", and the provider sends the event again.
func (eh *EventHandlers) counted(provider string, result feedback.IngestResult, err error) error {
	if err != nil {
		result = outcomeUnavailable
	}
	eh.Count(provider, string(result))
	return err
}
