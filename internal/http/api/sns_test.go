package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sns/snstest"
	"sendcode/internal/http/api"
	"sendcode/internal/kit/servertest"
)

// accepting is a subscriptionConfirmer. If accepted is true, an administrator has accepted the
// subscription of the provider "post".
type accepting struct {
	accepted bool
	err      error
}

func (a accepting) ConfirmSubscription(ctx context.Context, provider string, confirm func(context.Context) error) (bool, error) {
	if a.err != nil || !a.accepted || provider != "post" {
		return false, a.err
	}
	return true, confirm(ctx)
}

// subscriber returns the API with a provider that reports through a topic.
func subscriber(t *testing.T, a *snstest.Amazon, admin *accepting) *providerAPI {
	t.Helper()
	return providerAPIWith(t, feedback.Auth{Scheme: feedback.SchemeSNS, Topic: snstest.Topic}, nil, a.Subscriber(), admin)
}

// Only events in the topic's messages are recorded. Their Content-Type is text/plain.
func TestSNSEventsOfATopic(t *testing.T) {
	a := snstest.New(t)
	x := subscriber(t, a, &accepting{})
	note := snstest.Notification(`{"kind":"gone","tag":"`+eventID+`","to":"ana@example.com"}`, time.Now())
	body := string(a.Sign(note))
	for range 2 { // package feedback, not this package, recognizes a repetition
		x.post(here, "", body, http.StatusNoContent)
		if len(x.events.recorded) != 1 ||
			x.events.recorded[0].Meaning != feedback.BouncedForGood || x.events.recorded[0].Send.String() != eventID {
			t.Errorf("recorded %+v", x.events.recorded)
		}
	}
	x.events.err = fault.Unavailable
	x.post(here, "", body, http.StatusServiceUnavailable)
	x.events.err = nil
	ingested := func(status int, count, body string) {
		t.Helper()
		x.post(here, "", body, status)
		if len(x.events.recorded) != 0 || !slices.Equal(x.counts, []string{"post " + count}) ||
			!slices.Contains(api.ProviderOutcomes(), count) {
			t.Errorf("%.60s: heard %v, %v", body, x.events.recorded, x.counts)
		}
	}
	ingested(http.StatusUnauthorized, "forged", strings.Replace(body, "gone", "spam", 1))
	ingested(http.StatusUnauthorized, "forged", `{"kind":"gone","tag":"`+eventID+`"}`)
	ingested(http.StatusUnauthorized, "forged", "")
	old := snstest.Notification(note["Message"], time.Now())
	old["SignatureVersion"] = "1"
	ingested(http.StatusUnauthorized, "forged", string(a.Sign(old)))
	ingested(http.StatusBadRequest, "malformed", string(a.Sign(snstest.Notification("[1]", time.Now()))))
	ingested(http.StatusNoContent, "ignored",
		string(a.Sign(snstest.Notification("Successfully validated SNS topic for Amazon SES event publishing.", time.Now()))))
	ingested(http.StatusNoContent, "unsubscribed", string(a.Sign(snstest.Confirmation("UnsubscribeConfirmation", "abc", time.Now()))))

	away := snstest.New(t)
	away.Answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	x = subscriber(t, away, &accepting{})
	ingested(http.StatusServiceUnavailable, "unavailable", string(away.Sign(note))) // the certificate cannot be read
}

// A subscription is confirmed only if an administrator accepted it and it belongs to the configured
// topic.
func TestSNSSubscriptionsOfATopic(t *testing.T) {
	a, admin := snstest.New(t), &accepting{}
	x := subscriber(t, a, admin)
	asks := snstest.Confirmation("SubscriptionConfirmation", "abc", time.Now())
	for _, c := range []struct {
		admin     accepting
		body      string
		status    int
		count     string
		confirmed int
	}{
		{accepting{}, string(a.Sign(asks)), http.StatusNoContent, "unconfirmed", 0},
		{accepting{err: errors.New("down")}, string(a.Sign(asks)), http.StatusServiceUnavailable, "unavailable", 0},
		{accepting{accepted: true}, strings.Replace(string(a.Sign(asks)), `"abc"`, `"abd"`, 1), http.StatusUnauthorized, "forged", 0},
		{accepting{accepted: true}, strings.ReplaceAll(string(a.Sign(asks)), "ses-events", "others"), http.StatusUnauthorized, "forged", 0},
		{accepting{accepted: true}, string(a.Sign(asks)), http.StatusNoContent, "subscribed", 1},
	} {
		*admin = c.admin
		x.post(here, "", c.body, c.status)
		servertest.Same(t, "counted", fmt.Sprint(x.counts), "[post "+c.count+"]")
		servertest.Same(t, "confirmed", len(a.Confirmed()), c.confirmed)
	}
	servertest.Same(t, "which", a.Confirmed()[0], snstest.Topic+" abc")
	a.Answer = http.NotFound
	x.post(here, "", string(a.Sign(asks)), http.StatusServiceUnavailable)
}
