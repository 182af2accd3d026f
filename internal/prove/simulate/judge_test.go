package simulate

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	history "sendcode/internal/kit/historytest"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// ledger has the sends and verifications that are in the database at the end, indexed for the
// oracles.
type ledger struct {
	*world
	sends         []store.SendOrRefusal // without refusals, the oldest first
	of            map[recipient.Hash]*person
	verification  map[string]store.Verification
	byID          map[string]store.SendOrRefusal
	resets, erase map[*person][]administered
}

// judge runs all oracles. Each of them allows for the limits of its promise:
//
//   - Admission is compared on the database's clock. After that clock stepped, waits are not
//     compared, and a message may come twice, as after a crash.
//   - After a crash, a failover that lost writes, or a step of its clock, the limiter may
//     count a place too many, and never one too few.
//   - A call that the limiter makes after a stall counts from then, so a place may come free up to
//     a window later.
//   - The address in an event's row stays until its recipient is erased, and an event whose
//     receiver failed for minutes may still wait.
func (w *world) judge() {
	l := w.ledger()
	l.neverOverThePolicy()
	l.acceptedEnds()
	l.doubles()
	l.toldWaits()
	l.exactRefunds()
	l.checks()
	l.available()
	l.webhooks()
	l.erased()
	l.sinks()
	l.asSeen()
}

// asSeen has the history checker judge the answers and the messages that arrived. The checker
// assumes that rules do not change, and that there is one clock.
func (l *ledger) asSeen() {
	if !l.stepped.IsZero() || l.databaseStepped || l.plan.Split || l.plan.Folding || slices.ContainsFunc(l.plan.Events, func(e Event) bool {
		return slices.Contains([]Kind{NewPolicy, Remap, OtherFile, Erase}, e.Kind)
	}) {
		return
	}
	h := history.History{Crashes: l.crashed, Late: 30 * time.Second}
	if !l.plan.WithoutRedis { // Redis may get a refund up to a tick later
		h.Limiter, h.Stalls, h.Slack, h.FewerLeft = true, l.stalls, l.tick()+5*time.Second, l.crashes > 0 || l.movedWrites > 0
	}
	for _, r := range policySet(l.plan, 0).Purposes["default"].Policy.Rules {
		if r.Scope == quota.Recipient {
			rule := history.Rule{Name: r.Name, Limit: r.Limit, Window: r.Keep()}
			if r.Calendar() {
				rule.Until = countsUntil(month, l.begin)
			}
			h.Rules = append(h.Rules, rule)
		}
	}
	kinds := map[string]history.Kind{sending: history.Send, checking: history.Check}
	for _, q := range l.requests {
		h.Requests = append(h.Requests, history.Request{
			Kind: cmp.Or(kinds[q.kind], history.Look), MayEnd: q.kind == canceling, Recipient: q.to,
			Begin: q.began, End: q.ended, Status: q.status,
			Header: q.header, Body: q.raw,
			Key: q.key, Verification: q.verification, Code: q.code,
			// A known browser's wait is not compared, because other browsers may have to wait
			// longer.
			OwnSendsOnly: !q.by.hasSecretKey(), Stranger: q.by != backEnd, MayLack: q.known,
		})
	}
	for _, a := range l.acts {
		h.FewerLeft = h.FewerLeft || !a.done
		h.Requests = append(h.Requests, history.Request{
			Kind: history.Reset, MayEnd: true, Recipient: a.person.to, Begin: a.began,
			End: a.ended.Add(h.Slack), Status: map[bool]int{true: http.StatusNoContent}[a.done],
		})
	}
	for _, row := range l.sends {
		text := must(json.Marshal(map[string]any{"sends": []any{map[string]any{
			"id": row.ID, "status": row.Status,
			"reason": row.Reason, "at": row.LoggedAt,
		}}}))
		seen := time.Now()
		if l.plan.WithoutRedis && !row.Counts && !row.WasReset {
			seen = row.FinishedAt // from this instant on, its place is free
		}
		h.Requests = append(h.Requests, history.Request{Kind: history.Look, Begin: seen, End: seen, Status: http.StatusOK, Body: text})
	}
	for _, m := range l.mails {
		h.Messages = append(h.Messages, history.Message{Recipient: m.to, Code: m.code, ID: m.messageID, At: m.at})
	}
	found, _, _ := history.Judge(h)
	for _, v := range found {
		l.recordViolation("as seen: "+v.Promise, "%s", v.Detail)
	}
}

func (w *world) ledger() *ledger {
	l := &ledger{
		world: w, of: map[recipient.Hash]*person{}, verification: map[string]store.Verification{},
		byID:   map[string]store.SendOrRefusal{},
		resets: map[*person][]administered{}, erase: map[*person][]administered{},
	}
	for _, p := range append(slices.Clone(w.people), w.others...) {
		l.of[must(w.replicas[0].Administration.HashRecipient(string(p.channel), p.to))] = p
	}
	f := store.Filter{Limit: 200}
	for {
		rows := must(w.db.Sends(w.Context(), f))
		for _, row := range rows {
			if row.Status == store.Refused {
				continue
			}
			l.sends, l.byID[row.ID.String()] = append(l.sends, row), row
			if _, known := l.verification[row.VerificationID]; !known {
				v, _, _, err := w.db.Verification(w.Context(), row.VerificationID)
				if err != nil {
					w.Fatal(err)
				}
				l.verification[row.VerificationID] = v
			}
		}
		if len(rows) < f.Limit {
			break
		}
		last := rows[len(rows)-1]
		f.Before = &store.Cursor{At: last.LoggedAt, ID: last.ID}
	}
	slices.SortFunc(l.sends, func(a, b store.SendOrRefusal) int {
		return cmp.Or(a.LoggedAt.Compare(b.LoggedAt), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, a := range w.acts {
		if a.kind == Reset {
			l.resets[a.person] = append(l.resets[a.person], a)
		} else {
			l.erase[a.person] = append(l.erase[a.person], a)
		}
	}
	return l
}

// counted reports whether the database counts a row at an instant.
func (l *ledger) counted(row store.SendOrRefusal, at time.Time) bool {
	switch {
	case row.LoggedAt.After(at):
		return false
	case row.Counts || l.databaseStepped: // after a step of the clock, instants don't show what came first
		return row.Counts
	case row.WasReset: // by one of the recipient's resets, perhaps the first one
		return (row.Status != store.Failed || row.FinishedAt.After(at)) &&
			!slices.ContainsFunc(l.resets[l.of[row.Recipient]], func(a administered) bool { return !a.began.After(at) })
	}
	return row.FinishedAt.After(at)
}

// neverOverThePolicy checks promise 1, on the database's clock.
func (l *ledger) neverOverThePolicy() {
	for i, row := range l.sends {
		for rule, limit := range l.limitsAt(row.LoggedAt) {
			n := 0
			for _, before := range l.sends[:i] {
				// The database's clock was set back between the two sends.
				later := l.databaseStepped && before.ID.Time() > row.ID.Time()
				if !later && l.shares(before, row.Recipient, row.Purpose, row.LoggedAt) &&
					row.LoggedAt.Before(countsUntil(rule, before.LoggedAt)) &&
					l.counted(before, row.LoggedAt) {
					n++
				}
			}
			if n >= limit {
				l.recordViolation("never over the policy", "%s was let in at %s as number %d within %v of a recipient (limit %d)",
					row.ID, l.at(row.LoggedAt), n+1, rule, limit)
			}
		}
	}
}

// shares reports whether a row belongs to the recipient, and shared its limits with the purpose
// under all policies that were in force at an instant.
func (l *ledger) shares(row store.SendOrRefusal, of recipient.Hash, purpose string, at time.Time) bool {
	return row.Recipient == of && (row.Purpose == purpose ||
		!slices.ContainsFunc(l.inForce(at), func(number int) bool { return number&split != 0 }))
}

// limitsAt returns, by window, the loosest limits of rules on recipients that were in force at an
// instant or during a request that was under way then.
func (l *ledger) limitsAt(at time.Time) map[time.Duration]int {
	limits := map[time.Duration]int{}
	for _, number := range l.inForce(at) {
		for _, r := range policySet(l.plan, number).Purposes["default"].Policy.Rules {
			if r.Scope == "recipient" {
				limits[r.Keep()] = max(limits[r.Keep()], r.Limit)
			}
		}
	}
	return limits
}

// month is what quota.Rule.Keep returns for a rule per calendar month. Here it stands for the
// window of such a rule.
const month = 31 * 24 * time.Hour

// countsUntil returns the instant until which a rule with this window counts an event.
func countsUntil(window time.Duration, at time.Time) time.Time {
	if window == month {
		at = at.UTC()
		return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return at.Add(window)
}

// windowOf returns the window of a rule in an answer.
func windowOf(rule quotahttp.Rule) time.Duration {
	if rule.Per != "" {
		return month
	}
	return time.Duration(rule.Window) * time.Second
}

// inForce returns the numbers of the policies that were in force at an instant, or during a request
// that was under way then.
func (l *ledger) inForce(at time.Time) (numbers []int) {
	for _, p := range l.policies {
		ended := !p.to.IsZero() && p.to.Before(at.Add(-4*time.Minute)) // no process is frozen for longer
		if l.databaseStepped || !p.from.After(at) && !ended {
			numbers = append(numbers, p.number)
		}
	}
	return numbers
}

// acceptedEnds checks promise 2: each send that was answered with 202 is in the database, and has
// ended.
func (l *ledger) acceptedEnds() {
	arrived := map[string]int{}
	for _, m := range l.mails {
		arrived[m.send]++
	}
	for _, q := range l.requests {
		if q.kind == sending && q.accepted() && l.byID[q.body.Send.ID].ID.String() != q.body.Send.ID {
			l.recordViolation("never lost", "a send was answered 202 and is not in the database: %s", q.body.Send.ID)
		}
	}
	for _, row := range l.sends {
		id := row.ID.String()
		l.count("send ended: " + strings.TrimSpace(string(row.Status)+" "+row.Reason))
		if row.Attempt > 1 {
			l.count("send took several attempts")
		}
		if row.InDoubt {
			l.count("send was taken over, in doubt")
		}
		switch {
		case row.Status.InFlight():
			l.recordViolation("never lost", "a send has not ended: %s is %s, attempt %d", id, row.Status, row.Attempt)
		case row.Status == store.Sent && arrived[id] == 0:
			l.recordViolation("never lost", "a send is called sent, and no message arrived: %s", id)
		case row.Status == store.Failed && row.Reason == "":
			l.recordViolation("never lost", "a send failed without a reason: %s", id)
		case row.Status == store.Failed && arrived[id] > 0 && !row.InDoubt:
			l.recordViolation("never lost", "a send is called failed (%s), and its message arrived: %s", row.Reason, id)
		}
	}
	for id := range arrived {
		if _, logged := l.byID[id]; !logged {
			l.recordViolation("never lost", "a message arrived that the database knows nothing of: %s", id)
		}
	}
}

// doubles checks the rest of promise 2: a message comes twice only after a crash, with the same
// Message-ID and code.
func (l *ledger) doubles() {
	first := map[string]mail{}
	for _, m := range l.mails {
		f, again := first[m.send]
		if !again {
			first[m.send] = m
			continue
		}
		l.count("message arrived twice")
		row := l.byID[m.send]
		switch {
		case f.messageID != m.messageID || f.code != m.code:
			l.recordViolation("never silently doubled", "two messages of %s differ in Message-ID or code", m.send)
		case m.after == 0:
			l.recordViolation("never silently doubled", "%s arrived twice, at %s and %s, and nothing had crashed", m.send, l.at(f.at), l.at(m.at))
		case !row.InDoubt:
			l.recordViolation("never silently doubled", "%s arrived twice, and its row is not in doubt", m.send)
		case f.unheard && f.after == m.after:
			l.recordViolation("never silently doubled", "%s was sent again after a connection that dropped", m.send)
		}
	}
}

// checks checks promise 6: no code is guessed, and attackers stop no one else.
func (l *ledger) checks() {
	approved := map[string]int{}
	type checker struct { // each actor checks its own verification
		by     actor
		person *person
	}
	wrong := map[checker]int{}
	for _, q := range l.requests {
		if q.kind != checking {
			continue
		}
		who := checker{q.by, q.person}
		if q.by == stranger || q.by == form { // strangers and browsers are of one class
			who.by = browser
		}
		if !q.right && (!q.answered || q.status == http.StatusOK || q.body.MayHaveCounted) {
			wrong[who]++
		}
		if !q.answered {
			continue
		}
		if q.body.Valid {
			approved[q.verification]++
			if !q.right {
				l.recordViolation("guessing", "a wrong code was approved for %s", q.verification)
			}
		}
		if q.right && q.status == http.StatusOK && !q.body.Valid && q.body.Status == "pending" {
			l.recordViolation("guessing", "the right code was called wrong for %s", q.verification)
		}
		if q.right && q.body.problem() == "too-many-checks" && wrong[who] < 20 {
			l.recordViolation("attackers stop no one else", "person %d's right code was refused at %s: too many checks, after at most %d wrong ones",
				q.person.index, l.at(q.ended), wrong[who])
		}
	}
	for _, q := range l.requests {
		if n := wrong[checker{backEnd, q.person}]; q.kind == sending && q.by == backEnd && q.answered &&
			q.body.problem() == "too-many-checks" && n < 20 {
			l.recordViolation("attackers stop no one else", "person %d's back end was refused at %s: too many checks, after at most %d wrong ones",
				q.person.index, l.at(q.ended), n)
		}
	}
	for id, v := range l.verification {
		l.count("verification: " + string(verification.StateOf(v, time.Now())))
		if v.Attempts > v.MaxAttempts {
			l.recordViolation("guessing", "%s had %d tries of %d", id, v.Attempts, v.MaxAttempts)
		}
		if approved[id] > 1 {
			l.recordViolation("guessing", "%s was approved %d times", id, approved[id])
		}
		if approved[id] == 1 && v.ApprovedAt.IsZero() {
			l.recordViolation("guessing", "%s was answered valid, and the database has no approval", id)
		}
	}
}

// available checks that a 503 comes only in trouble, and that no other 5xx comes but a 502.
func (l *ledger) available() {
	for _, q := range l.requests {
		switch {
		case !q.answered || q.status < 500 || q.status == http.StatusBadGateway:
		case q.status != http.StatusServiceUnavailable:
			l.recordViolation("surface", "%s was answered %d", q.kind, q.status)
		case l.troubles == 0:
			l.recordViolation("available", "%s was answered 503 at %s, and nothing was wrong", q.kind, l.at(q.ended))
		}
	}
}
