package feedback_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A send still counts, and is not refunded, if its bounce is reported later. The codes and words of
// the bounce decide whether the recipient is suppressed.
func TestIngestOutcomes(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		for to, c := range map[string]struct {
			outcome feedback.EventMeaning
			detail  string
			kind    store.ProviderEventKind
			want    store.SuppressionCause
			says    delivery.Meaning
		}{
			"a@example.com": {feedback.Delivered, "", store.ProviderDelivered, "", ""},
			"b@example.com": {feedback.Bounced, "", store.ProviderBounced, "", ""},
			"c@example.com": {feedback.BouncedForGood, "", store.ProviderBounced, store.CauseHardBounce, ""},
			"d@example.com": {feedback.Bounced, "550 5.1.1", store.ProviderBounced, store.CauseHardBounce, ""},
			"e@example.com": {feedback.BouncedForGood, "550 5.7.1", store.ProviderBounced, "", ""},
			"k@example.com": {feedback.BouncedForGood, "4.4.7", store.ProviderBounced, "", ""},
			"f@example.com": {feedback.BouncedForGood, "550 5.1.1", store.ProviderBounced, store.CauseHardBounce, ""},
			"g@example.com": {feedback.Bounced, "5.2.2", store.ProviderBounced, "", ""},
			"h@example.com": {feedback.Complained, "", store.ProviderComplained, store.CauseComplaint, ""},
			"i@example.com": {feedback.OptedOut, "", store.ProviderOptedOut, store.CauseOptOut, ""},
			"l@example.com": {feedback.Bounced, "550 5.1.1", store.ProviderBounced, "", delivery.AnotherReason},
			"m@example.com": {feedback.BouncedForGood, "", store.ProviderBounced, "", delivery.AnotherReason}, // Mailgun's "Too old"
			// The first of these rows is how SendGrid reports a full mailbox.
			"n@example.com":    {feedback.BouncedForGood, "552 5.2.2", store.ProviderBounced, "", ""},
			"o@example.com":    {feedback.BouncedForGood, "550 5.0.0", store.ProviderBounced, "", ""},
			"p@example.com":    {feedback.Bounced, "550", store.ProviderBounced, store.CauseHardBounce, delivery.MissingMailbox},
			"j@simulator.test": {feedback.Complained, "", store.ProviderComplained, "", ""},
		} {
			event := feedback.Event{Send: r.SendID(to), Meaning: c.outcome, Detail: c.detail, WordsMeaning: c.says}
			r.Ingest(feedback.IngestResult(c.kind), event)
			r.Ingest(feedback.Repeated, event)
			details, err := r.Store.SendDetails(r.Context(), event.Send)
			if err != nil || len(details.Events) != 1 || details.Events[0].Provider != "postmark" || details.Events[0].Kind != c.kind {
				t.Fatalf("%s: %+v, %v", to, details.Events, err)
			}
			after := details.Send
			vtest.Equal(r, to+": Status", after.Status, "sent")
			vtest.Equal(r, to+": Counts", after.Counts, true)
			vtest.Equal(r, to+": RefundDue", after.RefundDue, false)
			vtest.Equal(r, to+": Attempt", after.Attempt, 1)
			r.Want(to+": bounced", after.Bounced, c.outcome == feedback.BouncedForGood || c.want == store.CauseHardBounce)
			if c.want == "" {
				r.Want(to+": suppressions", len(details.Suppressions), 0)
				r.SendTo(to)
				continue
			}
			s := details.Suppressions[0]
			vtest.Equal(r, to+": Cause", s.Cause, c.want)
			vtest.Equal(r, to+": Send", s.Send, event.Send)
			vtest.Equal(r, to, s.Until.Sub(s.Since), 30*24*time.Hour)
			vtest.Equal(r, to+": Detail", s.Detail, c.detail)
			r.WantStatus(r.SendTo(to), "failed suppressed")
		}
	})
}

// An event counts only if it is about the mail that was sent, and about the recipient of that mail.
func TestIngestMatchesMailAndRecipient(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { s.SuppressFor = 30 * 24 * time.Hour }, func(r *vtest.Rig) {
		complaint := func(send uuid.UUID, to string) feedback.Event {
			return feedback.Event{Meaning: feedback.Complained, Send: send, To: to}
		}
		id := r.SendID(vtest.Ana)
		for _, to := range []string{"bo@example.com", "noone", "ana.maria+x@example.com", "<>", "Ana <bo@example.com>"} {
			r.Ingest(feedback.OtherRecipient, complaint(id, to))
		}
		r.Ingest(feedback.UnknownMessage, complaint(uuid.Nil, ""))
		r.Ingest(feedback.UnknownMessage, complaint(uuid.UUID{1}, vtest.Ana))
		r.Ingest(feedback.Unrecorded, feedback.Event{Meaning: feedback.Ignored, Mapped: true, Send: id})
		for range 2 {
			r.Ingest(feedback.Unmapped, feedback.Event{Meaning: feedback.Ignored, Send: id, Type: "email.new"})
		}
		r.Want("lines", strings.Count(r.Printed.String(), "type=email.new"), 1)
		details, err := r.Store.SendDetails(r.Context(), id)
		r.NoError(err)
		last := details.Events[len(details.Events)-1]
		vtest.Equal(r, "on the send's page: Kind", last.Kind, "unmapped")
		vtest.Equal(r, "on the send's page: Detail", last.Detail, "email.new")
		r.RefuseTo("ana.maria@EXAMPLE.com") // the row of a refusal, which is no send
		r.Sleep(2 * time.Second)
		for _, row := range r.Rows() {
			if row.Status == store.Refused {
				r.Ingest(feedback.UnknownMessage, complaint(row.ID, vtest.Ana))
			}
		}
		r.Want("suppressions", len(r.Suppressions()), 0)
		r.Ingest("delivered", feedback.Event{Send: id, Meaning: feedback.Delivered, To: "Ana.Maria@example.COM"})
		r.Ingest("complained", complaint(id, "Ana <"+vtest.Ana+">"))
		r.Want("suppressions", len(r.Suppressions()), 1)
	})
}

// While the database is unavailable, no event counts as received, so the provider sends it again.
func TestIngestWithoutTheDatabase(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		id := r.SendID(vtest.Ana)
		complaint := feedback.Event{Send: id, Meaning: feedback.Complained}
		for _, method := range []string{"SendDetails", "IngestProviderEvent"} {
			r.FailStore(sqlitetest.Down, method)
			r.WantError(vtest.Err(r.Svc.ProviderEvents.Ingest(r.Context(), "postmark", complaint)), fault.Unavailable)
		}
		r.EndStoreFaults()
		r.Ingest("complained", complaint)
	})
}

// If the address of a recipient can no longer be read, it is neither compared nor suppressed. The
// event is kept.
func TestIngestForUnreadableRecipients(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		id := r.SendID(vtest.Ana)
		r.Settings.Vault.Ring = vtest.KeyRing(t, "k9:"+vtest.NewKey)
		stranger := r.Replica(r.MailServer)
		got, err := stranger.ProviderEvents.Ingest(r.Context(), "p",
			feedback.Event{Send: id, Meaning: feedback.Complained, To: "bo@example.com"})
		vtest.Equal(r, "the result", got, "complained")
		r.NoError(err)
		vtest.Equal(r, "suppressions", len(r.Suppressions()), 0)
	})
}
