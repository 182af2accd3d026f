package policy

import (
	"time"

	"sendcode/internal/keys"
	"sendcode/internal/store"
)

// Teller makes the events of which apps are told, each for the transaction of its change. Notify wakes their deliverer after it.
type Teller struct {
	Policy *InForce
	Vault  keys.Vault
	IDs    *store.IDs
	Now    func() time.Time
	Notify func()
}

// Event returns a new event of a type about a verification or its send; zero if the app does not subscribe to the type. Error: fault.Unavailable,
// if no ID could be made.
func (t Teller) Event(v store.Verification, event string) (store.NewEvent, error) {
	set := t.Policy.Get()
	_, test := set.TestRecipient(t.Vault, v, t.Now())
	e, err := set.Subscriptions.NewEvent(v.App, event, test, t.IDs, t.Now())
	return e, store.Unavailable(err)
}

// Told wakes the deliverer if there is an event.
func (t Teller) Told(e store.NewEvent) {
	if e.Type != "" {
		t.Notify()
	}
}
