package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

func (f *Fixture) ingest(t *testing.T, want bool, e store.ProviderEvent, suppress ...store.SuppressAs) {
	t.Helper()
	Equal(t, "recorded", Must(f.IngestProviderEvent(t.Context(), e, append(suppress, store.SuppressAs{})[0]))(t), want)
}

// Each kind is kept once, in whatever order they come; the worst is what lists say; no state moves, and nothing is given back.
func providerEvents(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1, WithRules(Rule(1, time.Hour))))
	id := begun.Send.ID
	f.End(t, id, store.Outcome{Status: store.Sent, Provider: "mx", ProviderCode: "250"})
	before := f.Row(t, id)
	f.Pass(time.Hour - time.Second)
	bounced := store.ProviderEvent{Send: id, Kind: store.ProviderBounced, At: Epoch.Add(time.Minute + 7), Provider: "postmark",
		Detail: "550 5.1.1\x00"}
	f.ingest(t, true, bounced)
	f.ingest(t, false, bounced)
	delivered := store.ProviderEvent{Send: id, Kind: store.ProviderDelivered, At: Epoch.Add(time.Second), Provider: "postmark"} // late
	f.ingest(t, true, delivered)
	later := delivered
	later.At, later.Detail = Epoch.Add(time.Hour), "again"
	f.ingest(t, false, later)
	f.Pass(time.Millisecond)
	ahead := store.ProviderEvent{Send: id, Kind: store.ProviderComplained, At: f.Now.Add(time.Hour), Provider: "other"} // its clock is wrong
	f.ingest(t, true, ahead)
	silent := store.ProviderEvent{Send: id, Kind: store.ProviderOptedOut, Provider: "other"} // tells no time
	f.ingest(t, true, silent)

	story := Must(f.Story(t.Context(), id))(t)
	at := f.Now.Add(-time.Millisecond)
	bounced.At, bounced.HeardAt, bounced.Detail = Epoch.Add(time.Minute), at, "550 5.1.1\uFFFD"
	delivered.HeardAt, ahead.At, ahead.HeardAt, silent.At, silent.HeardAt = at, f.Now, f.Now, f.Now, f.Now
	Equal(t, "events", story.Events, []store.ProviderEvent{delivered, bounced, ahead, silent})
	before.Afterwards = store.ProviderComplained
	Equal(t, "row", story.Send, before)
	Equal(t, "suppressions", len(story.Suppressions), 0)
	f.Refuse(t, f.Intent(1, WithRules(Rule(1, time.Hour)))) // its place stays spent
	Equal(t, "as it was written", Must(f.Begin(t.Context(), f.Intent(1, func(in *store.Intent) { in.Send.ID = id })))(t).Send, begun.Send)

	refusal := f.Refusal(1, nil)
	OK(t, f.Refused(t.Context(), []store.Send{refusal}))
	for _, none := range []uuid.UUID{{1}, refusal.ID} {
		_, err := f.IngestProviderEvent(t.Context(), store.ProviderEvent{Send: none, Kind: store.ProviderDelivered}, store.SuppressAs{})
		Is(t, err, store.ErrNotFound)
	}
}

func eventsSuppress(t *testing.T, f *Fixture) {
	id := f.Admit(t, f.Intent(1, to(1))).Send.ID
	suppress := store.SuppressAs{Cause: store.Complaint, Address: Address(1), For: time.Hour}
	e := store.ProviderEvent{Send: id, Kind: store.ProviderComplained, Provider: "postmark", Detail: "abuse"}
	f.ingest(t, true, e, suppress) // while it is still in flight
	want := store.Suppression{
		ID: store.SuppressionID(id, store.Complaint), App: "shop", Channel: "email", Address: Address(1), Recipient: f.Row(t, id).Recipient,
		To:    "a•••@example.com",
		Cause: store.Complaint, Detail: "abuse", Send: id, Since: f.Now, Until: f.Now.Add(time.Hour),
	}
	Equal(t, "suppressions", f.suppressions(t, store.SuppressionFilter{}), []store.Suppression{want})
	f.admitSuppressed(t, want.ID, to(1))
	f.liftAll(t, store.LiftRequest{Channel: "email", Address: Address(1)})
	f.Pass(time.Second)
	f.ingest(t, false, e, suppress)
	f.admitSuppressed(t, uuid.Nil, to(1))
	f.End(t, id, Sent)
	Equal(t, "afterwards", f.Row(t, id).Afterwards, store.ProviderComplained)
}

// A provider that repeats itself on all replicas at once is heard once.
func eventsAtOnce(t *testing.T, f *Fixture) {
	id := f.Admit(t, f.Intent(1, to(1))).Send.ID
	kinds := store.ProviderEventKinds[1:]
	Equal(t, "recorded", f.atOnce(t, 24, func(log store.Store, i int) (bool, error) {
		return log.IngestProviderEvent(t.Context(), store.ProviderEvent{Send: id, Kind: kinds[i%len(kinds)], Provider: "p"},
			store.SuppressAs{Cause: store.Complaint, Address: Address(1), For: time.Hour})
	}), len(kinds))
	Equal(t, "afterwards", f.Row(t, id).Afterwards, store.ProviderComplained)
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 1)
}

// eventsExpire tests that provider events expire with their send, and suppressions once they have been over for the same time.
func eventsExpire(t *testing.T, f *Fixture) {
	id := f.Ended(t, f.Intent(1, to(1)), Sent).Send.ID
	f.ingest(t, true, store.ProviderEvent{Send: id, Kind: store.ProviderComplained, Provider: "p"},
		store.SuppressAs{Cause: store.Complaint, Address: Address(1), For: time.Minute})
	f.suppress(t, 2, 24*time.Hour)
	f.Pass(time.Hour + store.MaxLife + time.Second)
	f.expireAndCheck(t, time.Hour, 10, 1)
	Equal(t, "not yet: it held for a minute", len(f.suppressions(t, store.SuppressionFilter{})), 2)
	f.Pass(time.Minute)
	f.expireAndCheck(t, time.Hour, 10, 0)
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 1)
	again := f.Intent(1)
	again.Send.ID = id // as if it were another send: nothing of the old one is left
	f.Admit(t, again)
	f.End(t, id, Sent)
	f.ingest(t, true, store.ProviderEvent{Send: id, Kind: store.ProviderComplained, Provider: "p"})
	f.Pass(48 * time.Hour)
	f.expireAndCheck(t, time.Hour, 10, 1)
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 0)
}
