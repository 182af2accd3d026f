// Package rowrules makes the decisions that depend on a recipient's rows in the database. It
// decides whether the rules admit a send, and which verification the send joins. It also decides
// whether the recipient is locked out after failed checks. The package reads no database: the
// packages postgres and sqlite pass the rows as a RecipientHistory.
package rowrules

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/quota"
)

// RecipientHistory has the rows on which Decide bases its decision about an intent. All rows belong
// to the intent's recipient.
type RecipientHistory struct {
	Past        []PastSend           // counted sends of the bucket
	Rejections  []PastSend           // rejected sends that Intent.RejectionRules may count
	Candidates  []store.Verification // the recipient's verifications that the send may join
	Tried       []store.Verification // the recipient's verifications with checks, of all classes of callers
	Suppression uuid.UUID            // the suppression of the address that is in force; Nil: none
}

// Decision is the gate's answer.
type Decision struct {
	store.BeginAnswer
	Joined bool // the send joins an existing verification
}

// Decide admits or refuses a new intent. It applies the rules on sends, the rules on rejected
// sends, and the lockout. The parameter now is the time on the database's clock. An admitted send
// joins a verification or opens a new one. Decide writes nothing: the caller writes the rows. For a
// send that already has a row, call RepeatedAnswer instead.
func Decide(in store.Intent, now time.Time, has RecipientHistory) Decision {
	events, failed := eventsWithin(quota.LongestKeep(in.Rules), now, has.Past),
		eventsWithin(quota.LongestKeep(in.RejectionRules), now, has.Rejections)
	full := append(usedUpRules(in.Rules, now, events), usedUpRules(in.RejectionRules, now, failed)...)
	if slices.ContainsFunc(full, func(r quota.Rule) bool { return !r.Observe }) {
		return Decision{BeginAnswer: refusedAnswer(now, events, failed, store.Lockout{})}
	}
	v, joined := joinOrOpen(in, now, has.Candidates)
	if out := LockoutOf(has.Tried, v.Class, now); out.Wait > 0 && !v.CallerChecks { // a code that its caller checks has no lockout
		return Decision{BeginAnswer: refusedAnswer(now, nil, nil, out)}
	}
	v.Sends++
	v.Labels = in.Send.Labels.Or(v.Labels)
	var observed []string
	for _, r := range full {
		observed = append(observed, r.Name)
	}
	in.Send.Observed = append(observed, in.Send.Observed...)
	return Decision{newAdmittedAnswer(in, v, has.Suppression, now, events, failed), joined}
}

// joinOrOpen returns the newest candidate whose code the intent may resend, and sets joined. If
// there is no such candidate, or if its details are not those of the intent, joinOrOpen returns a
// new verification. Without Join, it does not join an older candidate, since a check by recipient
// compares the code with that of the newest.
func joinOrOpen(in store.Intent, now time.Time, candidates []store.Verification) (best store.Verification,
	joined bool,
) {
	for _, v := range candidates {
		newer := cmp.Or(v.CreatedAt.Compare(best.CreatedAt), cmp.Compare(v.ID, best.ID)) > 0
		if isJoinable(v, in, now) && (!joined || newer) {
			best, joined = v, true
		}
	}
	if joined && best.Details == in.Verification.Details {
		return best, true
	}
	return newVerification(in, now), false
}

// LargestLimit returns the largest limit of the intent's rules; 0 without rules.
func LargestLimit(in store.Intent) (n int) {
	for _, r := range in.Rules {
		n = max(n, r.Limit)
	}
	return n
}

// ResendWithin limits how long after a send of a verification another send may join the
// verification. The limit equals the longest life of a code.
const ResendWithin = store.MaxCodeLife

// PastSend is a counted send of the intent's bucket, or a rejected send of the recipient.
type PastSend struct {
	ID           uuid.UUID
	At           time.Time // when it was logged; of a rejected send, when it ended
	Verification string    // ID; only set in a History
	InFlight     bool      // it waits for its outcome, so it may be refunded; only set in a History
}

// eventsWithin returns the rows that are younger than the duration window. It returns them as
// events, oldest first. If window is 0, eventsWithin returns none. If the database's clock was set
// back, a row may have a time in the future. Such a row counts.
func eventsWithin(window time.Duration, now time.Time, rows []PastSend) (events []quota.Event) {
	for _, row := range rows {
		if window > 0 && now.Sub(row.At) < window {
			events = append(events, quota.Event{ID: string(row.ID[:]), At: row.At})
		}
	}
	slices.SortFunc(events, func(a, b quota.Event) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return events
}

// usedUpRules returns the rules that have no room for one more event.
func usedUpRules(rules []quota.Rule, now time.Time, events []quota.Event) (full []quota.Rule) {
	cutoffs := quota.Cutoffs(rules, now)
	for i, rule := range rules {
		used := 0
		for _, e := range events {
			if e.At.After(cutoffs[i]) {
				used++
			}
		}
		if used >= rule.Limit {
			full = append(full, rule)
		}
	}
	return full
}

// isJoinable reports whether the intent may resend the code of v. v must not have a code that a
// caller made. v must be pending and have at least MinLife left. v must have the intent's app,
// channel, recipient and purpose. If the intent's Join is set, v must have this ID. Otherwise v
// must have the holder that HolderToJoin returns.
func isJoinable(v store.Verification, in store.Intent, now time.Time) bool {
	s := in.Send
	if v.CallerChecks || v.App != s.App || v.Channel != s.Channel || v.Recipient != s.Recipient || v.Purpose != s.Purpose {
		return false
	}
	if in.Join != "" && v.ID != in.Join || in.Join == "" && (v.Holder == "" || v.Holder != in.HolderToJoin()) {
		return false
	}
	return IsPending(v, now) && v.ExpiresAt.Sub(now) >= in.MinLife
}

// IsPending reports whether v is not approved, canceled or expired, and has tries left.
func IsPending(v store.Verification, now time.Time) bool {
	return v.ApprovedAt.IsZero() && v.CanceledAt.IsZero() && now.Before(v.ExpiresAt) && v.Attempts < v.MaxAttempts
}

// newVerification returns the new verification of an intent that resends none.
func newVerification(in store.Intent, now time.Time) store.Verification {
	v := in.Verification
	v.CreatedAt, v.ExpiresAt = now, now.Add(in.TTL.Truncate(time.Microsecond))
	v.Attempts, v.Sends, v.ApprovedAt, v.CanceledAt, v.AttemptsReset = 0, 0, time.Time{}, time.Time{}, 0
	return v
}

// newSend returns the row of an admitted send.
func newSend(in store.Intent, v store.Verification, number int, suppression uuid.UUID, now time.Time) store.Send {
	s := in.Send
	s.VerificationID, s.Number, s.Suppression = v.ID, number, suppression
	s.LoggedAt, s.Labels = now, v.Labels
	return asFirstWritten(s, in.Lease)
}

// asFirstWritten resets the fields that change after Begin, so that a repeated Begin returns the
// row as the first Begin wrote it. The caller then continues as attempt 1. If a later attempt has
// begun, the caller's writes change nothing.
func asFirstWritten(s store.Send, lease time.Duration) store.Send {
	s.Status, s.Attempt, s.InDoubt, s.Counts, s.RefundDue, s.WasReset = store.Sending, 1, false, true, false, false
	s.Reason, s.Provider, s.ProviderCode, s.Took = "", "", "", 0
	s.WorstEvent, s.Bounced = "", false
	s.DueAt, s.FinishedAt = s.LoggedAt.Add(lease.Truncate(time.Microsecond)), time.Time{}
	return s
}

// RepeatedAnswer returns the answer to a Begin whose Send.ID already has a row. The error wraps
// ErrBadRequest if the row belongs to another recipient.
func RepeatedAnswer(in store.Intent, s store.Send, v store.Verification) (store.BeginAnswer, error) {
	if s.App != in.Send.App || s.Channel != in.Send.Channel || s.Recipient != in.Send.Recipient {
		return store.BeginAnswer{}, store.BadRequestf("the ID belongs to another row")
	}
	s = asFirstWritten(s, in.Lease)
	return store.BeginAnswer{Admitted: true, Repeated: true, Verification: v, Send: s, Now: s.LoggedAt}, nil
}

// newAdmittedAnswer returns the answer to an intent that the gate admits.
func newAdmittedAnswer(in store.Intent, v store.Verification, suppression uuid.UUID, now time.Time,
	events, rejections []quota.Event,
) store.BeginAnswer {
	return store.BeginAnswer{
		Admitted: true, Verification: v, Send: newSend(in, v, v.Sends, suppression, now), Code: in.Code,
		History: events, Rejected: rejections, Now: now,
	}
}

// refusedAnswer returns the answer to an intent if the rules refuse it or its recipient is locked
// out.
func refusedAnswer(now time.Time, events, rejections []quota.Event, out store.Lockout) store.BeginAnswer {
	return store.BeginAnswer{History: events, Rejected: rejections, Lockout: out, Now: now}
}
