package verificationtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// ParseEmail returns the recipient with a mail address, and ends the test if the address is
// invalid.
func ParseEmail(t testing.TB, address string) recipient.Recipient {
	t.Helper()
	r, err := recipient.Parse(recipient.Email, address)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Rows returns up to 200 rows of the database, the oldest first.
func (r *Rig) Rows() []store.SendOrRefusal {
	r.Helper()
	rows, err := r.Store.Sends(r.Context(), store.Filter{Limit: 200})
	r.NoError(err)
	slices.Reverse(rows)
	return rows
}

// NewestSend returns the row of a verification's newest send.
func (r *Rig) NewestSend(id string) store.Send {
	r.Helper()
	_, send, _, err := r.Store.Verification(r.Context(), id)
	r.NoError(err)
	return send
}

// Send has the fields of a send that tests compare.
type Send struct {
	Status                         store.Status
	Reason, Provider, ProviderCode string
	Attempt                        int
	InDoubt                        bool
}

// WantSend fails the test unless the newest send of a verification is as wanted.
func (r *Rig) WantSend(id string, want Send) {
	r.Helper()
	s := r.NewestSend(id)
	Equal(r, "the send", Send{s.Status, s.Reason, s.Provider, s.ProviderCode, s.Attempt, s.InDoubt}, want)
}

// RowBlockedBy returns the row of a recipient's refusals by a rule or reason. It fails the test
// unless there is exactly one.
func (r *Rig) RowBlockedBy(rule, channel, to string) store.SendOrRefusal {
	r.Helper()
	h, err := r.Svc.Administration.HashRecipient(channel, to)
	r.NoError(err)
	rows, err := r.Store.Sends(r.Context(), store.Filter{Recipient: &h, BlockedBy: rule, Limit: 10})
	if err != nil || len(rows) != 1 {
		r.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows[0]
}

// WantObserved fails the test unless the sends of the database, the oldest first, have these
// observed rules.
func (r *Rig) WantObserved(want ...[]string) {
	r.Helper()
	var got [][]string
	for _, row := range r.Rows() {
		if row.Status != store.Refused {
			got = append(got, row.Observed)
		} else if row.Observed != nil {
			r.Errorf("a refusal observed %v", row.Observed)
		}
	}
	r.Want("observed", got, want)
}

// Verification returns a verification as the database has it.
func (r *Rig) Verification(id string) store.Verification {
	r.Helper()
	v, _, _, err := r.Store.Verification(r.Context(), id)
	r.NoError(err)
	return v
}

// Status returns the status of a verification's newest send, with its reason.
func (r *Rig) Status(a verification.Answer) string {
	r.Helper()
	s := r.Get(a.View.ID).Send
	return strings.TrimSuffix(string(s.Status)+" "+s.Reason, " ")
}

// WantStatus fails the test unless the verification's newest send has this status, and reason if
// there is one.
func (r *Rig) WantStatus(a verification.Answer, want string) {
	r.Helper()
	r.Want("the send", r.Status(a), want)
}

// WantMails fails the test unless there were exactly want attempts.
func (r *Rig) WantMails(want int) {
	r.Helper()
	r.Want("mails", len(r.MailServer.Attempts()), want)
}

// WantEvents fails the test unless the app's events equal want, each as "type reason", the oldest
// first. Events of test recipients are marked.
func (r *Rig) WantEvents(want ...string) {
	r.Helper()
	events, err := r.Store.AppEvents(r.Context(), store.AppEventFilter{Limit: 200})
	r.NoError(err)
	var got []string
	for _, e := range slices.Backward(events) {
		text := strings.TrimSuffix(e.Type+" "+e.Reason, " ")
		if e.Test {
			text += " (test)"
		}
		if e.App != "shop" || e.VerificationID == "" || strings.HasPrefix(e.Type, "send.") == (e.SendID == [16]byte{}) {
			r.Errorf("event %+v", e)
		}
		got = append(got, text)
	}
	r.Want("events", got, want)
}

// Ingest passes on an event of the mail provider, and fails the test unless the result is want.
func (r *Rig) Ingest(want feedback.IngestResult, e feedback.Event) {
	r.Helper()
	got, err := r.Svc.ProviderEvents.Ingest(r.Context(), "postmark", e)
	r.NoError(err)
	r.Want(Line(e.Meaning, e.Detail), got, want)
}

// MaxFailures is the limit of BoundFailures in a day.
const MaxFailures = 20

// BoundFailures admits many sends, bounds failures, and gives the purpose login its own policy.
func BoundFailures(s *Settings) {
	for name, p := range s.Purposes {
		p.Policy = quota.Policy{Name: name, Rules: []quota.Rule{
			{Name: "wide", Scope: quota.Recipient, Limit: 1000, Window: time.Hour},
			{Name: "failures", Scope: policy.FailuresScope, Limit: MaxFailures, Window: 24 * time.Hour},
		}}
		p.PolicyPurposes = []string{name}
		s.Purposes[name] = p
	}
}

// FailSends makes n sends to Ana fail by a rejection, a minute apart.
func (r *Rig) FailSends(n int) {
	r.Helper()
	for range n {
		r.MailServer.Answer(NoMailbox)
		r.WantStatus(r.SendTo(Ana), "failed rejected")
		r.Sleep(time.Minute)
	}
}

// SuppressBounces makes bounces suppress for 30 days, and admits many sends.
func SuppressBounces(s *Settings) {
	BoundFailures(s)
	s.SuppressFor = 30 * 24 * time.Hour
	s.Apps["default"] = policy.App{}
}

// SendFails sends, and fails the test unless the send failed for this reason and was refunded.
func (r *Rig) SendFails(to, reason string) verification.Answer {
	r.Helper()
	a := r.SendTo(to, Waiting(time.Second))
	Equal(r, "status", a.View.Send.Status, store.Failed)
	Equal(r, "reason", a.View.Send.Reason, reason)
	Equal(r, "places", a.Quota.Rules[0].Used, 0)
	return a
}

// Suppressions returns up to 200 suppressions of the database.
func (r *Rig) Suppressions() []store.Suppression {
	r.Helper()
	list, _, err := r.Store.Suppressions(r.Context(), store.SuppressionFilter{Limit: 200})
	r.NoError(err)
	return list
}

// Suppress suppresses a mail address by hand.
func (r *Rig) Suppress(to string, lasts time.Duration) store.Suppression {
	r.Helper()
	s, err := r.Svc.Administration.Suppress(r.Context(),
		support.SuppressRequest{Channel: "email", To: to, Reason: "asked by telephone", For: lasts},
		AuditEntry("suppression.add"))
	r.NoError(err)
	return s
}

// AnaTarget returns Ana as an administrator finds her.
func (r *Rig) AnaTarget() support.Target {
	r.Helper()
	p, err := r.Svc.Administration.ParseTarget("", "email", Ana, "", "ticket 7")
	r.NoError(err)
	return p
}

// AuditEntry returns the record of an action by the operator mei.
func AuditEntry(action string) store.AuditEntry {
	return store.AuditEntry{
		ID: uuid.Must(uuid.NewV7()), Who: "mei", Role: "operator", What: action, Reason: "ticket 7",
		Outcome: store.AuditDone,
	}
}

// Actions returns the actions of administrators with outcome, detail and masked recipient, the
// oldest first.
func (r *Rig) Actions() string {
	r.Helper()
	list, err := r.Store.AuditEntries(r.Context(), store.AuditFilter{Limit: 100})
	r.NoError(err)
	var out []string
	for _, a := range slices.Backward(list) {
		out = append(out, strings.Join(strings.Fields(Line(a.What, a.Outcome, a.Detail, a.To)), " "))
	}
	return strings.Join(out, "; ")
}

// WantActions fails the test unless the actions of administrators equal want. In want, leave out
// Ana's masked address and the mask of an erased recipient.
func (r *Rig) WantActions(want string) {
	r.Helper()
	r.Want("actions", strings.NewReplacer(" "+AnaMasked, "", " "+store.ErasedMask, "").Replace(r.Actions()), want)
}
