package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sns"
	"sendcode/internal/http/server"
)

// subscriptionConfirmer confirms a topic's subscription if an administrator accepted it.
// Implementation: *support.Administration.
type subscriptionConfirmer interface {
	ConfirmSubscription(ctx context.Context, provider string,
		confirm func(context.Context) error) (accepted bool, err error)
}

// These are outcomes of a topic's messages that are not events.
const (
	outcomeSubscribed        = "subscribed"
	outcomeUnconfirmed       = "unconfirmed"
	outcomeSubscriptionEnded = "unsubscribed"
)

// receiveFromTopic handles a message of a topic of Amazon SNS. It ignores the Content-Type, which
// is text/plain by default.
func (eh *EventHandlers) receiveFromTopic(c echo.Context, source feedback.Source, topic *sns.Topic, body []byte) error {
	ctx := c.Request().Context()
	m, err := topic.Verify(ctx, body, time.Now())
	if errors.Is(err, sns.ErrForged) {
		eh.Count(source.Name, outcomeForged)
		if n, due := eh.lines.Add(source.Name+err.Error(), time.Now()); due {
			eh.Logger.WarnContext(ctx, "provider events rejected: no message of the topic", "provider", source.Name,
				"error", err, "count", n, logs.SeeEvents)
		}
		return &server.Problem{Kind: server.Unauthorized}
	}
	if err != nil {
		eh.Count(source.Name, outcomeUnavailable)
		return fault.Unavailable.Wrap(err)
	}
	switch m.Kind {
	case sns.SubscriptionConfirmation:
		err = eh.confirmSubscription(ctx, source.Name, topic, m)
	case sns.UnsubscribeConfirmation:
		eh.Count(source.Name, outcomeSubscriptionEnded)
		eh.Logger.WarnContext(ctx, "provider events end: the subscription was removed", "provider", source.Name,
			logs.SeeEvents)
	case sns.Notification:
		if text := strings.TrimSpace(m.Text); !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
			eh.Count(source.Name, string(feedback.Unrecorded)) // not JSON: SES sends a sentence to a new topic
			break
		}
		return eh.ingest(c, source, []byte(m.Text))
	}
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// confirmSubscription confirms a subscription only if an administrator has accepted it before.
func (eh *EventHandlers) confirmSubscription(ctx context.Context, provider string, topic *sns.Topic, m sns.Message) error {
	accepted, err := eh.Subscriptions.ConfirmSubscription(ctx, provider,
		func(ctx context.Context) error { return topic.ConfirmSubscription(ctx, m) })
	switch {
	case err != nil:
		eh.Count(provider, outcomeUnavailable)
		return fault.Unavailable.Wrap(err)
	case !accepted:
		eh.Count(provider, outcomeUnconfirmed)
		eh.Logger.WarnContext(ctx, "subscription not confirmed: accept it at /admin/acts, then request it again in SNS",
			"provider", provider, logs.SeeEvents)
	default:
		eh.Count(provider, outcomeSubscribed)
	}
	return nil
}
