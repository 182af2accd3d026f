package feedback_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/events"
	"sendcode/internal/feedback"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	vtest "sendcode/internal/verification/verificationtest"
)

// A bounce that comes later costs and frees nothing; what it says decides whether the recipient is suppressed.
func TestWhatAProviderTells(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		for to, c := range map[string]struct {
			outcome events.Outcome
			detail  string
			kind    store.ProviderEventKind
			want    store.Cause
		}{
			"a@example.com":    {events.Delivered, "", store.ProviderDelivered, ""},
			"b@example.com":    {events.Bounced, "", store.ProviderBounced, ""},
			"c@example.com":    {events.Gone, "", store.ProviderBounced, store.HardBounce},
			"d@example.com":    {events.Bounced, "550 5.1.1", store.ProviderBounced, store.HardBounce},
			"e@example.com":    {events.Gone, "550 5.7.1", store.ProviderBounced, ""},
			"k@example.com":    {events.Gone, "4.4.7", store.ProviderBounced, ""},
			"f@example.com":    {events.Gone, "550 5.1.1", store.ProviderBounced, store.HardBounce},
			"g@example.com":    {events.Bounced, "5.2.2", store.ProviderBounced, ""},
			"h@example.com":    {events.Complained, "", store.ProviderComplained, store.Complaint},
			"i@example.com":    {events.OptedOut, "", store.ProviderOptedOut, store.OptOut},
			"j@simulator.test": {events.Complained, "", store.ProviderComplained, ""},
		} {
			told := events.Event{Send: r.SendID(to), Outcome: c.outcome, Detail: c.detail}
			before := r.Rows()[0]
			r.Ingest(feedback.Result(c.kind), told)
			r.Ingest(feedback.Repeated, told)
			story, err := r.Store.Story(r.Context(), told.Send)
			if err != nil || len(story.Events) != 1 || story.Events[0].Provider != "postmark" || story.Events[0].Kind != c.kind {
				t.Fatalf("%s: %+v, %v", to, story.Events, err)
			}
			if after := story.Send; after.Status != store.Sent || !after.Counts || after.RefundDue || after.Attempt != before.Attempt {
				t.Errorf("%s: %+v", to, after)
			}
			if c.want == "" {
				servertest.Same(t, to+": suppressions", len(story.Suppressions), 0)
				r.SendTo(to)
				continue
			}
			if s := story.Suppressions; len(s) != 1 || s[0].Cause != c.want || s[0].Send != told.Send || s[0].Detail != c.detail ||
				s[0].Until.Sub(s[0].Since) != 30*24*time.Hour {
				t.Errorf("%s: %+v", to, s)
			}
			ask := vtest.AskFor(to)
			ask.Wait = time.Second
			if a := r.Send(ask); a.View.Send.Reason != "suppressed" {
				t.Errorf("%s: %+v", to, a.View.Send)
			}
		}
	})
}

// An event is of the mail that was sent, and of who got it, or it is none.
func TestWhomAProviderMeans(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { s.SuppressFor = 30 * 24 * time.Hour }, func(r *vtest.Rig) {
		complaint := func(send uuid.UUID, to string) events.Event {
			return events.Event{Outcome: events.Complained, Send: send, To: to}
		}
		id := r.SendID(vtest.Ana)
		for _, to := range []string{"bo@example.com", "noone", "ana.maria+x@example.com", "<>", "Ana <bo@example.com>"} {
			r.Ingest(feedback.OtherRecipient, complaint(id, to))
		}
		r.Ingest(feedback.UnknownMessage, complaint(uuid.Nil, ""))
		r.Ingest(feedback.UnknownMessage, complaint(uuid.UUID{1}, vtest.Ana))
		r.Ingest(feedback.Ignored, events.Event{Outcome: events.Ignored, Known: true, Send: id})
		r.Ingest(feedback.Unmapped, events.Event{Outcome: events.Ignored, Send: id})
		r.RefuseTo("ana.maria@EXAMPLE.com") // written as a row of its own, which is no send
		r.Sleep(2 * time.Second)
		for _, row := range r.Rows() {
			if row.Status == store.Refused {
				r.Ingest(feedback.UnknownMessage, complaint(row.ID, vtest.Ana))
			}
		}
		if list := r.Suppressions(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		r.Ingest("delivered", events.Event{Send: id, Outcome: events.Delivered, To: "Ana.Maria@example.COM"})
		r.Ingest("complained", complaint(id, "Ana <"+vtest.Ana+">"))
		if list := r.Suppressions(); len(list) != 1 {
			t.Errorf("%+v", list)
		}
	})
}

// While the log is away nothing is taken for told: the provider is to tell it again.
func TestToldWhileTheLogIsAway(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		id := r.SendID(vtest.Ana)
		complaint := events.Event{Send: id, Outcome: events.Complained}
		for _, method := range []string{"Story", "IngestProviderEvent"} {
			r.FailStore(sqlite.Down, method)
			if got, err := r.Svc.Providers.Ingest(r.Context(), "postmark", complaint); !errors.Is(err, store.ErrUnavailable) || got != "" {
				t.Errorf("%s: %q, %v", method, got, err)
			}
		}
		r.MendStore()
		r.Ingest("complained", complaint)
	})
}

// A recipient whose address can't be read any more is neither compared nor suppressed; the event is kept.
func TestEventsOfUnknownRecipients(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		id := r.SendID(vtest.Ana)
		r.Settings.Vault.Ring = vtest.KeyRing(t, "k9:"+vtest.NewKey)
		stranger := r.Replica(r.MailServer)
		got, err := stranger.Providers.Ingest(r.Context(), "p", events.Event{Send: id, Outcome: events.Complained, To: "bo@example.com"})
		if got != "complained" || err != nil || len(r.Suppressions()) != 0 {
			t.Errorf("%q, %v, %+v", got, err, r.Suppressions())
		}
	})
}
