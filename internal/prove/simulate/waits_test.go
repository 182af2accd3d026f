package simulate

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/quota/quotahttp"
)

// toldWaits checks promise 3 for back ends: no answer says that more is left, or that the wait is
// shorter, than is true.
func (l *ledger) toldWaits() {
	if l.databaseStepped {
		return
	}
	for _, q := range l.requests {
		if !q.by.hasSecretKey() || !q.answered || q.body.Quota == nil || q.kind == checking {
			continue
		}
		for _, rule := range q.body.Quota.Rules {
			if rule.Scope == "recipient" && rule.Name != "carrier" {
				l.toldRule(q, rule)
			}
		}
	}
}

func (l *ledger) purpose(q *request) string {
	if q.kind == sending && q.event.N%2 == 0 {
		return "login"
	}
	return cmp.Or(l.verification[q.verification].Purpose, "default")
}

// countedFor returns the recipient that the answer to a request is about: the recipient of the
// verification that the request names, or the address as its replica counts it.
func (l *ledger) countedFor(q *request) recipient.Hash {
	if v, named := l.verification[q.verification]; named {
		return v.Recipient
	}
	return q.counted
}

func (l *ledger) toldRule(q *request, rule quotahttp.Rule) {
	window, wait := windowOf(rule), time.Duration(rule.RetryAfter)*time.Second
	var counted []time.Time // the instants of the sends that the answer must count
	for _, row := range l.sends {
		own := q.kind == sending && q.accepted() && row.ID.String() == q.body.Send.ID && !q.body.replayed
		if row.Recipient == l.countedFor(q) && l.shares(row, row.Recipient, l.purpose(q), q.ended) &&
			(row.LoggedAt.Before(q.began) || own && row.Counts) && l.counted(row, q.ended) &&
			q.ended.Before(countsUntil(window, row.LoggedAt)) && !l.resetDuring(q) {
			counted = append(counted, row.LoggedAt)
		}
	}
	if rule.Remaining > max(0, rule.Limit-len(counted)) {
		l.recordViolation("told wait", "at %s person %d's %s was told %d left of %s, and %d of %d were counted",
			l.at(q.ended), q.person.index, q.by, rule.Remaining, rule.Name, len(counted), rule.Limit)
	}
	if len(counted) < rule.Limit {
		return
	}
	if free := countsUntil(window, counted[len(counted)-rule.Limit]).Sub(q.ended); wait < free {
		l.recordViolation("told wait", "at %s person %d's %s was told to wait %v for %s, and the place is free in %v",
			l.at(q.ended), q.person.index, q.by, wait, rule.Name, free)
	}
}

func (l *ledger) resetDuring(q *request) bool {
	return slices.ContainsFunc(l.resets[q.person], func(a administered) bool {
		return a.began.Before(q.ended) && a.ended.After(q.began) || !a.done
	})
}

// exactRefunds checks promise 4: in the end, an answer counts the same sends as the database. With
// Redis, a place may be lost by a crash between the gates, by a failover that lost a refund, or by
// a step back of the limiter's clock. Nothing may add a place.
func (l *ledger) exactRefunds() {
	for _, p := range l.people {
		q := p.last
		if q == nil || !q.answered || q.status != http.StatusOK {
			l.recordViolation("available", "person %d's quota could not be looked at when all was quiet: %+v", p.index, q.status)
			continue
		}
		for _, rule := range q.body.Quota.Rules {
			if rule.Scope != "recipient" || l.databaseStepped {
				continue
			}
			window := windowOf(rule)
			surely, atMost := 0, 0
			for _, row := range l.sends {
				if row.Recipient != q.counted || !l.shares(row, row.Recipient, l.purpose(q), q.ended) || !l.counted(row, q.ended) {
					continue
				}
				if q.ended.Before(countsUntil(window, row.LoggedAt)) {
					surely++
				}
				if q.began.Before(countsUntil(window, row.LoggedAt)) {
					atMost++
				}
			}
			used := rule.Limit - rule.Remaining
			undone := slices.ContainsFunc(l.resets[p], func(a administered) bool { return !a.done })
			exact := l.plan.WithoutRedis || l.crashes == 0 && l.movedWrites == 0 && l.stepped.IsZero()
			if !undone && exact && used > min(rule.Limit, atMost) {
				l.recordViolation("refunds", "in the end person %d has used %d of %s, and %d sends count", p.index, used, rule.Name, atMost)
			}
			if used < min(rule.Limit, surely) {
				l.recordViolation("refunds", "in the end person %d has used %d of %s, though %d sends count", p.index, used, rule.Name, surely)
			}
		}
	}
}

// webhooks checks that each outcome was sent as an event at least once.
func (l *ledger) webhooks() {
	reportedEvents := map[string]bool{}
	for _, body := range l.hooks {
		e := parseHook(body)
		reportedEvents[e.Type+" "+cmp.Or(e.Data.Send, e.Data.Verification)] = true
	}
	pending := map[uuid.UUID]bool{} // events that failed so often that the next attempt is hours away
	for _, e := range must(l.db.AppEvents(l.Context(), store.AppEventFilter{State: store.EventPending, Limit: 200})) {
		pending[e.SendID] = e.Attempt > 3
	}
	for _, row := range l.sends {
		if key := fmt.Sprintf("send.%s %s", row.Status, row.ID); !row.Status.InFlight() && !reportedEvents[key] &&
			!pending[row.ID] && row.Reason != store.ReasonErased {
			l.recordViolation("webhooks", "nothing was told of %s", key)
		}
	}
	for id, v := range l.verification {
		if !v.ApprovedAt.IsZero() && !reportedEvents["verification.approved "+id] && !pending[uuid.Nil] {
			l.recordViolation("webhooks", "nothing was told of the approval of %s", id)
		}
	}
}

// erased checks that no row from before an erasure has the person's address.
func (l *ledger) erased() {
	if l.databaseStepped {
		return
	}
	for p, acts := range l.erase {
		for _, a := range acts {
			if !a.done {
				continue
			}
			for _, row := range l.sends {
				v := l.verification[row.VerificationID]
				if l.of[row.Recipient] != p || !row.LoggedAt.Before(a.began) {
					continue
				}
				if row.To != store.ErasedMask || v.CreatedAt.Before(a.began) && (len(v.Sealed) > 0 || v.To != store.ErasedMask) {
					l.recordViolation("erased", "person %d was erased at %s, and %s still tells of the address", p.index, l.at(a.ended), row.ID)
				}
			}
		}
	}
}

// sinks checks promise 5: no log line, answer or event has a code or an address. In one world of
// ten, it also searches the database's file. It looks only for codes of letters, since six digits
// occur in any number.
func (l *ledger) sinks() {
	sinks := map[string]string{"log": l.logged.String(), "answers": l.answers.String(), "webhooks": l.posted.String()}
	if l.plan.Seed%10 == 0 {
		sinks["file of the database"] = string(must(l.db.Image()))
		l.count("file searched for codes")
	}
	var secrets []string
	for _, m := range l.mails {
		if strings.ContainsAny(m.code, "BCDFGHJKLMNPQRSTVWXZ") {
			secrets = append(secrets, m.code)
		}
	}
	for _, p := range l.people {
		secrets = append(secrets, strings.TrimPrefix(strings.TrimSuffix(p.to, "@example.com"), "+49"))
	}
	for name, text := range sinks {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				l.recordViolation("no code and no address in any sink", "%s: %q", name, s)
			}
		}
	}
}
