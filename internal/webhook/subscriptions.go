package webhook

import (
	"slices"
	"time"

	"sendcode/internal/store"
)

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
	i := slices.IndexFunc(store.EventTypes, func(t store.EventType) bool { return t.Name == event })
	return store.NewEvent{ID: id, Type: event, Status: store.EventTypes[i].Status, Test: test}, nil
}

// To returns the apps that receive events of a type.
func (s Subscriptions) To(event string) (apps []string) {
	for app, events := range s {
		if slices.Contains(events, event) {
			apps = append(apps, app)
		}
	}
	return apps
}
