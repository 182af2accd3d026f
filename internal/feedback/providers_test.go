package feedback_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/events"
	"sendcode/internal/feedback"
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
			r.Ingest(feedback.Result(c.kind), told)
			r.Ingest(feedback.Repeated, told)
			story, err := r.Store.Story(r.Context(), told.Send)
			if err != nil || len(story.Events) != 1 || story.Events[0].Provider != "postmark" || story.Events[0].Kind != c.kind {
				t.Fatalf("%s: %+v, %v", to, story.Events, err)
			}
			after := story.Send
			r.WantLine(to, "sent true false 1", after.Status, after.Counts, after.RefundDue, after.Attempt)
			if c.want == "" {
				r.Want(to+": suppressions", len(story.Suppressions), 0)
				r.SendTo(to)
				continue
			}
			s := story.Suppressions[0]
			r.WantLine(to, vtest.Line(c.want, told.Send, 30*24*time.Hour, c.detail), s.Cause, s.Send, s.Until.Sub(s.Since), s.Detail)
			r.WantStatus(r.SendTo(to), "failed suppressed")
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
		r.Want("suppressions", len(r.Suppressions()), 0)
		r.Ingest("delivered", events.Event{Send: id, Outcome: events.Delivered, To: "Ana.Maria@example.COM"})
		r.Ingest("complained", complaint(id, "Ana <"+vtest.Ana+">"))
		r.Want("suppressions", len(r.Suppressions()), 1)
	})
}

// While the log is away nothing is taken for told: the provider is to tell it again.
func TestToldWhileTheLogIsAway(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		id := r.SendID(vtest.Ana)
		complaint := events.Event{Send: id, Outcome: events.Complained}
		for _, method := range []string{"Story", "IngestProviderEvent"} {
			r.FailStore(sqlite.Down, method)
			r.WantError(vtest.Err(r.Svc.Providers.Ingest(r.Context(), "postmark", complaint)), store.ErrUnavailable)
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
		r.WantLine("the result, suppressions", "complained <nil> 0", got, err, len(r.Suppressions()))
	})
}
