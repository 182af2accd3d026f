package webhook

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Apps returns the names of the apps that have a webhook, sorted.
func (d *Deliverer) Apps() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.settings.Endpoints))
}

// PostSample posts a made-up event of the given type to the app's endpoint. The event is marked as
// a test. It is posted once and is not stored in the database. answer is the HTTP status of the
// endpoint's answer, or the kind of failure. ok says whether the endpoint accepted the event. If
// the app has no webhook or the type is unknown, the error is a *fault.InvalidError.
func (d *Deliverer) PostSample(ctx context.Context, app, event string) (answer string, ok bool, err error) {
	d.mu.Lock()
	to, found := d.settings.Endpoints[app]
	c := d.client
	d.mu.Unlock()
	if !found {
		return "", false, fault.Invalid("app", "no_webhook", "This app has no webhook in the configuration.")
	}
	e, err := sampleEvent(app, event)
	if err != nil {
		return "", false, err
	}
	e.At = d.Now()
	got := c.postEvent(ctx, to, e)
	return got.word, got.ok, nil
}

// sampleEvent makes up an event: of a low or recovered conversion about the app, of a receipt about
// a text message, and any other about a mail.
func sampleEvent(app, event string) (e store.AppEvent, err error) {
	i := slices.IndexFunc(store.EventTypes, func(t store.EventType) bool { return t.Name == event })
	if i < 0 {
		return e, fault.Invalid("event", "unknown", "There is no event of this type; docs/webhooks.md lists them.")
	}
	e = store.AppEvent{App: app, Type: event, Status: store.EventTypes[i].Status, Test: true}
	if e.ID, err = uuid.NewV7(); err != nil {
		return e, err
	}
	if event == store.ConversionLow || event == store.ConversionRecovered {
		e.Reason = store.Conversion{Sends: 4210, Approved: 31}.EventReason()
		return e, nil
	}
	e.VerificationID, e.Reference = "sample", "sample"
	e.Channel, e.Purpose, e.To = recipient.Email, "default", "a•••@example.com"
	switch event {
	case store.SendDelivered, store.SendUndelivered:
		e.Channel, e.To = recipient.SMS, "+49 151•••789"
	case "send.failed":
		e.Reason = store.ReasonRejected
	case "send.unknown":
		e.Reason = "no_answer"
	}
	if strings.HasPrefix(event, "send.") {
		e.SendID, err = uuid.NewV7()
	}
	return e, err
}
