package webhook

import (
	"slices"
	"time"

	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
)

// Events makes events for apps. An event describes a change in the database. The database writes
// the event in the same transaction as the change. Then WakeWebhooks wakes the deliverer.
type Events struct {
	Policy       *policy.CurrentSet
	Vault        keys.Vault
	IDs          *store.IDGenerator
	Now          func() time.Time // an estimate of the database's clock, which may step
	WakeWebhooks func()           // must not block
}

// NewEvent returns a new event of a type about a verification or its send. If the app does
// not subscribe to the type, the result is zero. If no ID could be made, the error is
// fault.Unavailable.
func (events Events) NewEvent(v store.Verification, eventType string) (store.NewEvent, error) {
	set := events.Policy.Get()
	_, test := set.TestRecipients.Of(events.Vault, v, events.Now())
	e, err := NewEvent(set.Subscriptions[v.App], eventType, test, events.IDs, events.Now())
	return e, store.WrapUnavailable(err)
}

// NewAppEvent is like [Events.NewEvent] for an event about an app, which is never a test.
func (events Events) NewAppEvent(app, eventType string) (store.NewEvent, error) {
	return NewEvent(events.Policy.Get().Subscriptions[app], eventType, false, events.IDs, events.Now())
}

// WakeForEvent wakes the deliverer if there is an event.
func (events Events) WakeForEvent(e store.NewEvent) {
	if e.Type != "" {
		events.WakeWebhooks()
	}
}

// NewEvent returns a new event of a type, or the zero value if the app does not subscribe to the
// type. The database writes the event in the same transaction as the change that the event
// describes, so an event is never written without its change. NewEvent returns an error if no ID
// could be made.
func NewEvent(subscribed []string, eventType string, test bool, ids *store.IDGenerator, now time.Time) (store.NewEvent, error) {
	if !slices.Contains(subscribed, eventType) {
		return store.NewEvent{}, nil
	}
	id, err := ids.New(now)
	if err != nil {
		return store.NewEvent{}, err
	}
	i := slices.IndexFunc(store.EventTypes, func(t store.EventType) bool { return t.Name == eventType })
	return store.NewEvent{ID: id, Type: eventType, Status: store.EventTypes[i].Status, Test: test}, nil
}
