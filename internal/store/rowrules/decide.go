// Package rowrules decides by a recipient's rows whether the rules admit a send, which verification
// it joins, and whether failed checks have locked the recipient out. It reads no database: packages
// postgres and sqlite pass the rows.
package rowrules

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/quota"
)

// RecipientHistory has the rows of an intent's recipient by which Decide decides.
type RecipientHistory struct {
	Past        []PastSend           // counted sends of the bucket
	Rejections  []PastSend           // rejected sends that Intent.RejectionRules may count
	Candidates  []store.Verification // among these is the verification that the send joins, if any
	Tried       []store.Verification // the verifications with checks, of all classes of callers
	Suppression uuid.UUID            // the suppression of the address that is in force; Nil: none
}

type Decision struct {
	store.BeginAnswer
	Joined bool // the send joins an earlier verification
}

// Decide admits or refuses a new intent by its rules on sends, its rules on rejected sends, and the
// lockout. An admitted send joins a verification or opens one. Decide writes nothing. now is on the
// database's clock. For a send that has a row already, call RepeatedAnswer.
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

// joinOrOpen joins the newest verification whose code the intent may resend, if it has the intent's
// details; otherwise it opens a new one. It never falls back on an older one, because a check by
// recipient compares the code with that of the newest verification.
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

func LargestLimit(in store.Intent) (n int) {
	for _, r := range in.Rules {
		n = max(n, r.Limit)
	}
	return n
}

// ResendWithin is how long after a send another one may join its verification: the longest life of
// a code.
const ResendWithin = store.MaxCodeLife

// PastSend is a counted send of the bucket, or a rejected send of the recipient.
type PastSend struct {
	ID           uuid.UUID
	At           time.Time // when it was logged; of a rejected send, when it ended
	Verification string    // ID; only set in a History
	InFlight     bool      // the send waits for its outcome, so it may be refunded; only set in a History
}

// eventsWithin returns the rows that are younger than window, oldest first. A row in the future,
// which exists if the database's clock was set back, counts too.
func eventsWithin(window time.Duration, now time.Time, rows []PastSend) (events []quota.Event) {
	for _, row := range rows {
		if window > 0 && now.Sub(row.At) < window {
			events = append(events, quota.Event{ID: string(row.ID[:]), At: row.At})
		}
	}
	slices.SortFunc(events, func(a, b quota.Event) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return events
}

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

// isJoinable reports whether the intent may resend the code of v. v must be pending, with MinLife
// left, of the same app, channel, recipient and purpose, and not have a caller's own code. It must
// be the verification that Join names or, without Join, have the holder that HolderToJoin returns.
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

func IsPending(v store.Verification, now time.Time) bool {
	return v.ApprovedAt.IsZero() && v.CanceledAt.IsZero() && now.Before(v.ExpiresAt) && v.Attempts < v.MaxAttempts
}

func newVerification(in store.Intent, now time.Time) store.Verification {
	v := in.Verification
	v.CreatedAt, v.ExpiresAt = now, now.Add(in.TTL.Truncate(time.Microsecond))
	v.Attempts, v.Sends, v.ApprovedAt, v.CanceledAt, v.AttemptsReset = 0, 0, time.Time{}, time.Time{}, 0
	return v
}

func newSend(in store.Intent, v store.Verification, number int, suppression uuid.UUID, now time.Time) store.Send {
	s := in.Send
	s.VerificationID, s.Number, s.Suppression = v.ID, number, suppression
	s.LoggedAt, s.Labels = now, v.Labels
	return asFirstWritten(s, in.Lease)
}

// asFirstWritten resets what changes after Begin, so that a repeated Begin returns the row as first
// written. The caller continues as attempt 1. If a later attempt has begun, the caller's writes
// change nothing.
func asFirstWritten(s store.Send, lease time.Duration) store.Send {
	s.Status, s.Attempt, s.InDoubt, s.Counts, s.RefundDue, s.WasReset = store.Sending, 1, false, true, false, false
	s.Reason, s.Provider, s.ProviderCode, s.Took = "", "", "", 0
	s.WorstEvent, s.Bounced = "", false
	s.DueAt, s.FinishedAt = s.LoggedAt.Add(lease.Truncate(time.Microsecond)), time.Time{}
	return s
}

// RepeatedAnswer answers a Begin whose Send.ID has a row already. Error: ErrBadRequest if the row
// has another app, channel or recipient.
func RepeatedAnswer(in store.Intent, s store.Send, v store.Verification) (store.BeginAnswer, error) {
	if s.App != in.Send.App || s.Channel != in.Send.Channel || s.Recipient != in.Send.Recipient {
		return store.BeginAnswer{}, store.BadRequestf("the ID belongs to another row")
	}
	s = asFirstWritten(s, in.Lease)
	return store.BeginAnswer{Admitted: true, Repeated: true, Verification: v, Send: s, Now: s.LoggedAt}, nil
}

func newAdmittedAnswer(in store.Intent, v store.Verification, suppression uuid.UUID, now time.Time,
	events, rejections []quota.Event,
) store.BeginAnswer {
	return store.BeginAnswer{
		Admitted: true, Verification: v, Send: newSend(in, v, v.Sends, suppression, now), Code: in.Code,
		History: events, Rejected: rejections, Now: now,
	}
}

func refusedAnswer(now time.Time, events, rejections []quota.Event, out store.Lockout) store.BeginAnswer {
	return store.BeginAnswer{History: events, Rejected: rejections, Lockout: out, Now: now}
}
