package webhook

import (
	"slices"
	"time"

	"sendcode/internal/store"
)

// EventApproved is the type of the event of an approval. The types for sends are "send." and the status, such as "send.failed".
const EventApproved = "verification.approved"

// Subscriptions are the types of events that each app receives, by app.
type Subscriptions map[string][]string

// NewEvent returns a new event of a type for an app; zero if the app does not subscribe to that type. The database writes it in the
// transaction of the change, so there is no event without its change. Error: no ID could be made.
func (s Subscriptions) NewEvent(app, event string, test bool, ids *store.IDs, now time.Time) (store.NewEvent, error) {
	if !slices.Contains(s[app], event) {
		return store.NewEvent{}, nil
	}
	id, err := ids.New(now)
	if err != nil {
		return store.NewEvent{}, err
	}
	return store.NewEvent{ID: id, Type: event, Test: test}, nil
}
