// Package gate decides what the store writes: whether the rules on a recipient have a place left, which verification a send joins, and
// whether failed checks lock its code out. It computes with what a database has read and knows no database itself.
package gate

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/quota"
)

// Facts is what a log holds of an intent's recipient.
type Facts struct {
	Past        []CountedSend        // counting sends of the bucket
	Rejections  []CountedSend        // rejected sends that the rule `failures` may count
	Candidates  []store.Verification // the recipient's verifications that the send may join
	Tried       []store.Verification // the recipient's codes that were tried, whichever kind of caller opened them
	Suppression uuid.UUID            // the suppression of the address; Nil if there is none
}

// Decision is what the gate decides.
type Decision struct {
	store.Begun
	Joined bool // the verification was there before
}

// Decide admits or refuses a new intent at now, on the log's clock, from what was read of its recipient: by the rules, the
// rejections and the lockout. An admitted one joins a verification or opens one. Decide changes nothing; the caller writes the rows. A
// send that exists already does not come here; see AnswerRepeated.
func Decide(in store.Intent, now time.Time, has Facts) Decision {
	events, failed := eventsWithin(quota.LongestKeep(in.Rules), in, now, has.Past), eventsWithin(in.Rejections.Window, in, now, has.Rejections)
	if !rulesAdmit(in, now, events) || !rejectionsAdmit(in, failed) {
		return Decision{Begun: refusedAnswer(in, now, events, failed, store.Lockout{})}
	}
	v, joined := joinOrOpen(in, now, has.Candidates)
	if out := LockoutOf(OpenedBy(has.Tried, v.ByBrowser), now).WithCallerKind(v); out.Wait > 0 {
		return Decision{Begun: refusedAnswer(in, now, nil, nil, out)}
	}
	v.Sends++
	return Decision{admittedAnswer(in, v, has.Suppression, now, events, failed), joined}
}

// joinOrOpen returns the newest candidate that the intent may resend (joined), or else a new verification.
func joinOrOpen(in store.Intent, now time.Time, candidates []store.Verification) (best store.Verification, joined bool) {
	for _, v := range candidates {
		if joinable(v, in, now) && (!joined || newer(v, best)) {
			best, joined = v, true
		}
	}
	if joined {
		return best, true
	}
	return newVerification(in, now), false
}

// MaxRowAge returns how old, by the log's clock, a row can be that still counts for the intent.
func MaxRowAge(in store.Intent) time.Duration { return quota.LongestKeep(in.Rules) + MaxStale }

// LargestLimit returns the largest limit of the intent's rules; 0 without rules.
func LargestLimit(in store.Intent) (n int) {
	for _, r := range in.Rules {
		n = max(n, r.Limit)
	}
	return n
}

// MaxStale is how much longer than its window a row counts at most, by the log's clock, whatever its other clock says: a
// limiter that was once set far ahead must not lock its recipients out until that time comes.
const MaxStale = 24 * time.Hour

// MaxClockSkew is by how much an event may be older by the limiter's clock than by the log's. So a limiter whose clock jumps ahead, or whose
// promoted replica has another clock, frees a place at most one second early. It is not 0, since the time from a Take to Begin varies, and
// a request after the wait that was told must be admitted.
const MaxClockSkew = time.Second

// CountedSend is a counting send of the bucket that an intent falls into, or a rejected send of the recipient, whose Clock is
// empty and whose LoggedAt is its end.
type CountedSend struct {
	ID       uuid.UUID
	Clock    string
	TakenAt  time.Time
	LoggedAt time.Time
}

// age returns how long ago the row was taken. If row and intent were taken on the same limiter's clock, it is the age on that
// clock, but at most MaxClockSkew more than on the log's. Otherwise it is the age on the log's clock. It is negative if the clock
// went back; such a row counts.
func (p CountedSend) age(in store.Intent, now time.Time) time.Duration {
	logged := now.Sub(p.LoggedAt)
	if p.Clock == in.Send.Clock && in.Send.Clock != store.LogClock {
		return min(in.Send.TakenAt.Sub(p.TakenAt), logged+MaxClockSkew)
	}
	return logged
}

// eventsWithin returns the rows that a window holds at now, oldest first. Each event lies its age before the time at which the intent is
// decided. Without a window there are none.
func eventsWithin(window time.Duration, in store.Intent, now time.Time, rows []CountedSend) (events []quota.Event) {
	at := decisionTime(in, now)
	for _, row := range rows {
		if age := row.age(in, now); window > 0 && age < window && now.Sub(row.LoggedAt) < window+MaxStale {
			events = append(events, quota.Event{ID: string(row.ID[:]), At: at.Add(-age)})
		}
	}
	slices.SortFunc(events, func(a, b quota.Event) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return events
}

// decisionTime returns the time at which the intent is decided: TakenAt, but at most MaxClockSkew after the log's now. Only rules by
// calendar period need it; the others compare ages.
func decisionTime(in store.Intent, now time.Time) time.Time {
	if at := takenAt(in, now); at.Before(now.Add(MaxClockSkew)) {
		return at
	}
	return now.Add(MaxClockSkew)
}

// takenAt returns the intent's TakenAt, or now (the log's) if no limiter took it.
func takenAt(in store.Intent, now time.Time) time.Time {
	if in.Send.Clock == store.LogClock {
		return now
	}
	return in.Send.TakenAt
}

// EventsBefore returns the rows as events, oldest first, as a gate that decides at the instant `at` of the named clock sees them: each
// lies its age before at. Rows older than within are left out.
func EventsBefore(rows []CountedSend, within time.Duration, clock string, at, now time.Time) []quota.Event {
	in := store.Intent{Send: store.Send{Clock: clock, TakenAt: at}}
	events := eventsWithin(within.Truncate(time.Microsecond), in, now, rows)
	shift := takenAt(in, now).Sub(decisionTime(in, now))
	for i := range events {
		events[i].At = events[i].At.Add(shift)
	}
	return events
}

// rejectionsAdmit reports whether the rule on rejected sends has room for one more. Without a limit it always has.
func rejectionsAdmit(in store.Intent, events []quota.Event) bool {
	return in.Rejections.Limit == 0 || len(events) < in.Rejections.Limit
}

// rulesAdmit reports whether every rule has room for one more event.
func rulesAdmit(in store.Intent, now time.Time, events []quota.Event) bool {
	cutoffs := quota.Cutoffs(in.Rules, decisionTime(in, now))
	for i, rule := range in.Rules {
		used := 0
		for _, e := range events {
			if e.At.After(cutoffs[i]) {
				used++
			}
		}
		if used >= rule.Limit {
			return false
		}
	}
	return true
}

// joinable reports whether the intent may resend the code of v: same app, channel, recipient and purpose, the ID or holder that the
// intent names, still pending, and at least MinLife left.
func joinable(v store.Verification, in store.Intent, now time.Time) bool {
	s := in.Send
	if v.App != s.App || v.Channel != s.Channel || v.Recipient != s.Recipient || v.Purpose != s.Purpose {
		return false
	}
	if in.Join != "" && v.ID != in.Join || in.Join == "" && (v.Holder == "" || v.Holder != in.Verification.Holder) {
		return false
	}
	return Pending(v, now) && v.ExpiresAt.Sub(now) >= in.MinLife
}

// Pending reports whether a code can still be checked against v: it is open and has tries left.
func Pending(v store.Verification, now time.Time) bool {
	return isOpen(v, now) && v.Attempts < v.MaxAttempts
}

// isOpen reports whether v is neither approved, canceled nor expired.
func isOpen(v store.Verification, now time.Time) bool {
	return v.ApprovedAt.IsZero() && v.CanceledAt.IsZero() && now.Before(v.ExpiresAt)
}

// newer reports whether a was created after b; the ID decides between equal times.
func newer(a, b store.Verification) bool {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) > 0
}

// newVerification returns the new verification of an intent that resends none.
func newVerification(in store.Intent, now time.Time) store.Verification {
	v := in.Verification
	v.Sealed, v.Nonce = slices.Clone(v.Sealed), slices.Clone(v.Nonce)
	v.CreatedAt, v.ExpiresAt = now, now.Add(in.TTL.Truncate(time.Microsecond))
	v.Attempts, v.Sends, v.ApprovedAt, v.CanceledAt, v.Forgiven = 0, 0, time.Time{}, time.Time{}, 0
	return v
}

// newSend returns the row of an admitted send: the fields that the caller gave, and those that Begin decides.
func newSend(in store.Intent, v store.Verification, number int, suppression uuid.UUID, now time.Time) store.Send {
	s := in.Send
	s.VerificationID, s.Number, s.Suppression, s.Count = v.ID, number, suppression, 1
	s.TakenAt, s.LoggedAt, s.Observed = takenAt(in, now), now, slices.Clone(s.Observed)
	s.BlockedBy, s.RetryAfter, s.Recipients = "", 0, 0
	return asFirstWritten(s, in.Lease)
}

// asFirstWritten resets the fields that change after Begin, so that a repeated Begin gets the row as the first one wrote it. The caller
// then acts as the first attempt; if another attempt holds the row, its writes change nothing.
func asFirstWritten(s store.Send, lease time.Duration) store.Send {
	s.Status, s.Attempt, s.InDoubt, s.Counts, s.RefundDue, s.Forgiven = store.Sending, 1, false, true, false, false
	s.Reason, s.Provider, s.ProviderCode, s.Took = "", "", "", 0
	s.Afterwards = ""
	s.DueAt, s.FinishedAt = s.LoggedAt.Add(lease.Truncate(time.Microsecond)), time.Time{}
	return s
}

// AnswerRepeated returns the answer to a Begin whose Send.ID has a row already. The error wraps ErrBadRequest if that row is a refusal or
// another recipient's.
func AnswerRepeated(in store.Intent, s store.Send, v store.Verification) (store.Begun, error) {
	if s.Status == store.Refused || s.App != in.Send.App || s.Channel != in.Send.Channel || s.Recipient != in.Send.Recipient {
		return store.Begun{}, store.BadRequestf("the ID belongs to another row")
	}
	s = asFirstWritten(s, in.Lease)
	return store.Begun{Admitted: true, Repeated: true, Verification: v, Send: s, Now: s.LoggedAt, Clock: store.LogClock}, nil
}

// admittedAnswer returns the answer to an intent that the gate admits.
func admittedAnswer(in store.Intent, v store.Verification, suppression uuid.UUID, now time.Time,
	events, rejections []quota.Event) store.Begun {
	return store.Begun{
		Admitted: true, Verification: v, Send: newSend(in, v, v.Sends, suppression, now),
		History: events, Rejected: rejections, At: decisionTime(in, now), Now: now, Clock: store.LogClock,
	}
}

// refusedAnswer returns the answer to an intent that the rules refuse, or whose code could not be tried because of too many failed checks.
func refusedAnswer(in store.Intent, now time.Time, events, rejections []quota.Event, out store.Lockout) store.Begun {
	at := decisionTime(in, now)
	return store.Begun{History: events, Rejected: rejections, Lockout: out, At: at, Now: at, Clock: in.Send.Clock}
}
