package feedback_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/feedback"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	vtest "sendcode/internal/verification/verificationtest"
)

// A bounce that comes later costs and frees nothing; what it says decides whether the recipient is suppressed.
func TestWhatAProviderTells(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		for to, c := range map[string]struct {
			told feedback.ProviderEvent
			want store.Cause
		}{
			"a@example.com": {feedback.ProviderEvent{Kind: store.ProviderDelivered}, ""},
			"b@example.com": {feedback.ProviderEvent{Kind: store.ProviderBounced}, ""},
			"c@example.com": {feedback.ProviderEvent{Kind: store.ProviderBounced, NoMailbox: true}, store.HardBounce},
			"d@example.com": {feedback.ProviderEvent{Kind: store.ProviderBounced, Detail: "550 5.1.1", Enhanced: "5.1.1"}, store.HardBounce},
			"e@example.com": {feedback.ProviderEvent{Kind: store.ProviderBounced, NoMailbox: true, Detail: "550 5.7.1", Enhanced: "5.7.1"}, ""},
			"k@example.com": {feedback.ProviderEvent{Kind: store.ProviderBounced, NoMailbox: true, Enhanced: "4.4.7"}, ""},
			"f@example.com": {feedback.ProviderEvent{Kind: store.ProviderBounced, NoMailbox: true, Detail: "550 5.1.1", Enhanced: "5.1.1"},
				store.HardBounce},
			"g@example.com":    {feedback.ProviderEvent{Kind: store.ProviderBounced, Enhanced: "5.2.2"}, ""},
			"h@example.com":    {feedback.ProviderEvent{Kind: store.ProviderComplained}, store.Complaint},
			"i@example.com":    {feedback.ProviderEvent{Kind: store.ProviderOptedOut}, store.OptOut},
			"j@simulator.test": {feedback.ProviderEvent{Kind: store.ProviderComplained}, ""},
		} {
			c.told.Send = r.SendID(to)
			before := r.Rows()[0]
			r.Ingest(feedback.Recorded, c.told)
			r.Ingest(feedback.Repeated, c.told)
			story, err := r.Store.Story(r.Context(), c.told.Send)
			if err != nil || len(story.Events) != 1 || story.Events[0].Provider != "postmark" || story.Events[0].Kind != c.told.Kind {
				t.Fatalf("%s: %+v, %v", to, story.Events, err)
			}
			if after := story.Send; after.Status != store.Sent || !after.Counts || after.RefundDue || after.Attempt != before.Attempt {
				t.Errorf("%s: %+v", to, after)
			}
			if c.want == "" {
				if len(story.Suppressions) != 0 {
					t.Errorf("%s: %+v", to, story.Suppressions)
				}
				r.SendTo(to)
				continue
			}
			if s := story.Suppressions; len(s) != 1 || s[0].Cause != c.want || s[0].Send != c.told.Send || s[0].Detail != c.told.Detail ||
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
		id := r.SendID(vtest.Ana)
		for _, to := range []string{"bo@example.com", "noone", "ana.maria+x@example.com", "<>", "Ana <bo@example.com>"} {
			r.Ingest(feedback.OtherRecipient, feedback.ProviderEvent{Send: id, Kind: store.ProviderComplained, To: to})
		}
		r.Ingest(feedback.UnknownMessage, feedback.ProviderEvent{Kind: store.ProviderComplained})
		r.Ingest(feedback.UnknownMessage, feedback.ProviderEvent{Send: uuid.UUID{1}, Kind: store.ProviderComplained, To: vtest.Ana})
		r.RefuseTo("ana.maria@EXAMPLE.com") // written as a row of its own, which is no send
		r.Sleep(2 * time.Second)
		for _, row := range r.Rows() {
			if row.Status == store.Refused {
				r.Ingest(feedback.UnknownMessage, feedback.ProviderEvent{Send: row.ID, Kind: store.ProviderComplained, To: vtest.Ana})
			}
		}
		if list := r.Suppressions(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		r.Ingest(feedback.Recorded, feedback.ProviderEvent{Send: id, Kind: store.ProviderDelivered, To: "Ana.Maria@example.COM"})
		r.Ingest(feedback.Recorded, feedback.ProviderEvent{Send: id, Kind: store.ProviderComplained, To: "Ana <" + vtest.Ana + ">"})
		if list := r.Suppressions(); len(list) != 1 {
			t.Errorf("%+v", list)
		}
	})
}

// While the log is away nothing is taken for told: the provider is to tell it again.
func TestToldWhileTheLogIsAway(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		id := r.SendID(vtest.Ana)
		complaint := feedback.ProviderEvent{Send: id, Kind: store.ProviderComplained}
		for _, method := range []string{"Story", "IngestProviderEvent"} {
			r.FailStore(sqlite.Down, method)
			if got, err := r.Svc.Providers.Ingest(r.Context(), complaint); !errors.Is(err, store.ErrUnavailable) || got != "" {
				t.Errorf("%s: %q, %v", method, got, err)
			}
		}
		r.MendStore()
		r.Ingest(feedback.Recorded, complaint)
	})
}

// A recipient whose address can't be read any more is neither compared nor suppressed; the event is kept.
func TestEventsOfUnknownRecipients(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		id := r.SendID(vtest.Ana)
		r.Settings.Vault.Ring = vtest.KeyRing(t, "k9:"+vtest.NewKey)
		stranger := r.Replica(r.MailServer)
		got, err := stranger.Providers.Ingest(r.Context(),
			feedback.ProviderEvent{Send: id, Kind: store.ProviderComplained, To: "bo@example.com", Provider: "p"})
		if got != feedback.Recorded || err != nil || len(r.Suppressions()) != 0 {
			t.Errorf("%q, %v, %+v", got, err, r.Suppressions())
		}
	})
}
