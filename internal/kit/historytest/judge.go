package historytest

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

func (j *judge) recordViolation(promise, format string, args ...any) {
	j.found = append(j.found, Violation{promise, fmt.Sprintf(format, args...), j.at})
}

// allowance is a sentence of docs/PROMISES.md, and whether the sentence allows the result.
type allowance struct {
	sentence string
	applies  bool
}

// recordUnlessAllowed records a violation, or an Allowance if one of the sentences allows the
// result.
func (j *judge) recordUnlessAllowed(sentences []allowance, promise, format string, args ...any) {
	for _, a := range sentences {
		if a.applies {
			j.allowed = append(j.allowed, Allowance{Violation{promise, fmt.Sprintf(format, args...), j.at}, a.sentence})
			return
		}
	}
	j.recordViolation(promise, format, args...)
}

// crashed reports whether a process crashed between two instants.
func (j *judge) crashed(from, to time.Time) bool { return within(j.Crashes, from, to) }

// mayStayTaken reports whether a place of a rule may have stayed taken in the limiter in the span
// from … to, or within a window before it.
func (j *judge) mayStayTaken(rule string, from, to time.Time) bool {
	from = j.oldest(rule, from)
	return j.FewerLeft || j.Limiter && (j.crashed(from.Add(-j.Slack), to) || within(j.Stalls, from, to) || within(j.SetBack, from, to))
}

// changed reports whether policies may have changed between the two requests or during one of them.
func (j *judge) changed(q, r request) bool {
	return slices.ContainsFunc(j.Changes, func(c [2]time.Time) bool { return !q.Begin.After(c[1]) && !r.End.Before(c[0]) })
}

func within(instants []time.Time, from, to time.Time) bool {
	return slices.ContainsFunc(instants, func(at time.Time) bool { return !at.Before(from) && !at.After(to) })
}

// overPolicy finds sends of a recipient that must lie in one window and are more than the rule's
// limit. It leaves out failed sends, since they gave their places back.
func (j *judge) overPolicy() {
	for recipient, sends := range j.sendsOf {
		j.judged[OverPolicy] += len(sends)
		for _, rule := range j.Rules {
			for _, last := range sends {
				n, inside := 0, ""
				for _, s := range sends {
					if !s.to.After(last.to) && rule.surelyOne(s.from, last.to, j.Skew) && s.outcome.Status != "failed" &&
						!j.resetBetween(recipient, s.from, last.to) {
						n++
						inside += fmt.Sprintf(" %s (%s to %s, answered %t, %s)", s.id, stamp(s.from), stamp(s.to),
							s.answered, s.outcome.Status)
					}
				}
				if n > rule.Limit {
					j.recordViolation(OverPolicy, "%s got %d sends within %v:%s; the rule %s admits %d", recipient, n,
						rule.Window, inside, rule.Name, rule.Limit)
				}
			}
		}
	}
}

func (j *judge) resetBetween(recipient string, from, to time.Time) bool {
	return slices.ContainsFunc(j.requestsOf[recipient], func(q request) bool {
		end := q.End
		if q.Request.Status != http.StatusNoContent {
			end = end.Add(j.Late)
		}
		return q.Kind == Reset && end.After(from) && q.Begin.Before(to)
	})
}

// outcomes finds sends that were lost, doubled, or reported with a wrong state.
func (j *judge) outcomes() {
	for _, sends := range j.sendsOf {
		for _, s := range sends {
			n := len(s.messages)
			j.judged[Lost]++
			j.judged[Doubled] += n
			switch {
			case n == 0 && s.outcome.Status == "sent":
				j.recordViolation(Lost, "%s is called sent, and no message came", s.id)
			case n == 0 && !s.outcome.final() && !j.Unended:
				j.recordViolation(Lost, "%s was accepted, is %q in the end, and no message came", s.id, s.outcome.Status)
			case n > 0 && s.outcome.Status == "failed": // after a crash the send would be unknown
				j.recordViolation(Lost, "%s is called failed (%s), and its message came", s.id, s.outcome.Reason)
			case n > 1:
				j.recordUnlessAllowed([]allowance{{Twice, j.crashed(s.from, s.messages[n-1].At)}}, Doubled,
					"%s came %d times, and nothing had crashed", s.id, n)
			}
			j.receipts(s)
			for _, m := range s.messages {
				if m.Recipient != s.recipient || m.Code != s.messages[0].Code || m.ID != s.messages[0].ID {
					j.recordViolation(Doubled, "%s came with two codes or Message-IDs, or to two recipients", s.id)
				}
			}
		}
	}
}

// receipts compares the state of a send with what the carriers reported about its messages.
func (j *judge) receipts(s *send) {
	var delivered, lost bool
	for _, m := range s.messages {
		delivered, lost = delivered || m.Delivered, lost || m.Lost
	}
	alone, status := lost && !delivered && len(s.messages) == 1, s.outcome.Status // of two messages, one may have been refused later
	if delivered != (status == "delivered") || status == "undelivered" && !lost || alone && status != "undelivered" {
		j.recordViolation(Lost, "%s is called %s, and of its messages one was delivered: %t, or lost: %t", s.id, status, delivered, lost)
	}
}

// codes finds verifications with two codes.
func (j *judge) codes() {
	codes := map[string]string{}
	for _, sends := range j.sendsOf {
		for _, s := range sends {
			if len(s.messages) == 0 || s.verification == "" {
				continue
			}
			code, first := s.messages[0].Code, codes[s.verification]
			if first == "" {
				codes[s.verification] = code
				continue
			}
			j.judged[SameCode]++
			if first != code {
				j.recordViolation(SameCode, "two messages of the verification %s have different codes", s.verification)
			}
		}
	}
}

// blockedFor returns the bounds of the time for which an answer says that no send of the recipient
// is admitted.
func (re request) blockedFor() (least, most time.Duration, says bool) {
	switch {
	case re.refused():
		least, most = re.wait()
		return least, most, true
	case re.Quota == nil || len(re.Quota.Rules) == 0 || re.Request.Status == http.StatusTooManyRequests:
		return 0, 0, false
	}
	for _, r := range re.Quota.Rules {
		most = max(most, time.Duration(r.RetryAfter)*time.Second)
	}
	return most - time.Second, most, true
}

// waits compares each wait in an answer with the answers to the next requests.
func (j *judge) waits() {
	defer func() { j.at = time.Time{} }()
	for _, requests := range j.requestsOf {
		for i, q := range requests {
			j.at = q.End
			if q.refused() {
				if header := q.Header.Get("Retry-After"); q.RetryAfter < 1 || header != fmt.Sprint(q.RetryAfter) {
					j.recordViolation(Surface, "a refusal has the header Retry-After %q and the member %d", header, q.RetryAfter)
				}
			}
			if least, most, says := q.blockedFor(); says && !q.MayLack {
				j.wait(q, requests[i+1:], least, most)
			}
		}
	}
}

// wait checks the first request of the same kind of caller after a wait. This request must be
// admitted if nothing else happened. It also finds a request that was admitted before the wait was
// over.
func (j *judge) wait(q request, next []request, least, most time.Duration) {
	for _, r := range next {
		if r.Kind != Send || r.OwnSendsOnly != q.OwnSendsOnly || r.Stranger != q.Stranger || r.Begin.Before(q.End) {
			continue
		}
		if r.Begin.Before(q.End.Add(most + j.Slack)) {
			early := q.Begin.Add(least - j.Skew).Sub(r.End)
			if r.accepted() && early > 0 && !q.OwnSendsOnly && j.sends[r.answer.Send.ID].from.Equal(r.Begin) && !j.freed(q, r) {
				j.recordUnlessAllowed([]allowance{
					{StaysTaken, j.mayStayTaken(q.BlockedBy, q.Begin, r.End) || j.lostByFailover(q, j.oldest(q.BlockedBy, q.Begin))},
					{AwayForOne, j.keptWhileAway(q, j.oldest(q.BlockedBy, q.Begin))},
					{OldPolicies, j.changed(q, r)},
				}, Untrue,
					"%s was told at %s to wait %v, and was admitted %v before", q.Recipient, stamp(q.End), most, early)
			}
			continue
		}
		j.judged[Untrue]++
		if r.refused() && !j.taken(q, r) {
			j.recordUnlessAllowed([]allowance{
				{OldPolicies, j.changed(q, r)},
				{GivenBackLate, j.mayTakeEffect(q, r)},
				{StaysTaken, j.countedLate(q, r) || j.lostByFailover(r, j.since(r))},
				{AwayForOne, j.keptWhileAway(r, j.since(r))},
				{Stepped, j.steppedBack(q, r, most)},
			}, Untrue,
				"%s was told at %s to wait %v, asked at %s, and was refused for %d s more%s", q.Recipient, stamp(q.End), most,
				stamp(r.Begin), r.RetryAfter, j.between(q, r))
		}
		return
	}
}

// between lists the sends of the recipient that were requested between an answer and a later one.
func (j *judge) between(q, r request) (list string) {
	for _, u := range j.requestsOf[q.Recipient] {
		if u.Kind == Send && u.Begin.Before(r.End) && u.End.After(q.Begin) && !u.Begin.Equal(r.Begin) {
			list += fmt.Sprintf("; %s to %s: %d %s", stamp(u.Begin), stamp(u.End), u.Request.Status, u.BlockedBy)
		}
	}
	return list
}

// steppedBack reports whether a clock that was set in the meantime explains a refusal after a wait.
func (j *judge) steppedBack(q, r request, most time.Duration) bool {
	least, _ := r.wait()
	return r.End.Add(least).Before(q.End.Add(most + j.Skew))
}

// since returns the earliest instant of an event that explains a refusal: the rule admits the next
// send only when all its events from before that instant have left.
func (j *judge) since(r request) time.Time {
	least, _ := r.wait()
	for _, rule := range j.Rules {
		if rule.Name == r.BlockedBy {
			return later(rule.oldest(r.Begin), r.Begin.Add(least-rule.Window)).Add(-j.Slack)
		}
	}
	return r.End // no known rule refused the request
}

// countedLate reports whether a late count explains a refusal. A send may count from the instant at
// which a stalled limiter answered again. A place may have been taken before a process died, or
// before a reset that did not reach the limiter. The limiter's clock may have been set back.
func (j *judge) countedLate(q, r request) bool {
	if within(j.SetBack, j.oldest(r.BlockedBy, q.Begin), r.End) {
		return true
	}
	since := j.since(r)
	return j.Limiter && (slices.ContainsFunc(j.sendsOf[r.Recipient], func(s *send) bool {
		return slices.ContainsFunc(j.Stalls, func(at time.Time) bool {
			return s.from.Before(at) && !at.Before(since) && at.Before(r.End)
		})
	}) || j.notGivenBack(r, since, func(u request) bool { return u.Kind == Reset || j.crashed(u.Begin, r.End) }))
}

// lostByFailover reports whether a failover later than since, and before the answer, may have lost
// a reset, or the refund of a send that failed or was not taken.
func (j *judge) lostByFailover(q request, since time.Time) bool {
	return slices.ContainsFunc(j.Failovers, func(f [2]time.Time) bool {
		return f[0].Before(q.End) && slices.ContainsFunc(j.requestsOf[q.Recipient], func(u request) bool {
			s, end := j.sends[u.answer.Send.ID], u.End
			if s != nil {
				end = later(end, s.failed)
			}
			back := u.Kind == Reset || u.Kind == Send && (s == nil || s.outcome.Status == "failed")
			return back && u.Begin.Before(f[1]) && end.After(f[0]) && !u.End.Before(since)
		})
	})
}

// keptWhileAway reports whether the answer may show a place that was taken after since and should
// have been given back, because a process could not reach the limiter at that time.
func (j *judge) keptWhileAway(q request, since time.Time) bool {
	return j.Limiter && slices.ContainsFunc(j.Away, func(a [2]time.Time) bool { return !q.End.Before(a[0]) && !q.Begin.After(a[1]) }) &&
		j.notGivenBack(q, since, func(u request) bool { return u.Kind == Send })
}

// notGivenBack reports whether, between since and the answer, the recipient should have got a place
// back. This is the place of a send that failed or was not taken, or the places of a reset that no
// answer confirms. when selects the requests.
func (j *judge) notGivenBack(q request, since time.Time, when func(request) bool) bool {
	return slices.ContainsFunc(j.requestsOf[q.Recipient], func(u request) bool {
		s := j.sends[u.answer.Send.ID]
		back := u.Kind == Send && (s == nil || s.outcome.Status == "failed") ||
			u.Kind == Reset && u.Request.Status != http.StatusNoContent
		return back && !u.End.Before(since) && u.Begin.Before(q.Begin) && when(u)
	})
}

// oldest returns the earliest instant whose events some rule still counts at the instant at. A
// crash between the gates may cost a place for that long. Of the calendar rules, oldest considers
// only the named rule: otherwise a crash would excuse the figures of every rule until the month
// ends.
func (j *judge) oldest(rule string, at time.Time) (since time.Time) {
	since = at
	for _, r := range j.Rules {
		if r.Until.IsZero() || r.Name == rule {
			since = earlier(since, r.oldest(at))
		}
	}
	return since
}

func stamp(t time.Time) string { return t.Format("15:04:05.000") }

// taken reports whether another send of the recipient may have been taken between an answer and
// the answer to a later request.
func (j *judge) taken(q, r request) bool {
	return slices.ContainsFunc(j.sendsOf[q.Recipient], func(s *send) bool {
		own := q.Kind == Send && q.answer.Send.ID == s.id
		return !own && s.from.Before(r.End) && s.to.After(q.Begin)
	})
}

// mayTakeEffect reports whether a request without a definite answer may have taken a place between
// an answer and the answer to a later request.
func (j *judge) mayTakeEffect(q, r request) bool {
	return slices.ContainsFunc(j.requestsOf[q.Recipient], func(u request) bool {
		return u.Kind == Send && (u.Request.Status == 0 || u.Request.Status >= 500 && !u.accepted()) &&
			u.Begin.Before(r.End) && u.End.Add(j.Late).After(q.Begin)
	})
}

// freed reports whether a place of the recipient that counted at an answer may have been given back
// before a request ended.
func (j *judge) freed(q, r request) bool {
	since := j.oldest(q.BlockedBy, q.Begin).Add(-j.Skew)
	return j.resetBetween(q.Recipient, q.Begin, r.End) || slices.ContainsFunc(j.sendsOf[q.Recipient], func(s *send) bool {
		return s.outcome.Status == "failed" && s.from.Before(r.End) && !s.to.Before(since)
	}) || slices.ContainsFunc(j.requestsOf[q.Recipient], func(u request) bool {
		return u.Kind == Send && !u.accepted() && u.Begin.Before(r.End) && !u.End.Add(j.Late).Before(since) &&
			(u.Request.Status == 0 || u.Request.Status >= 500 || j.mayOccupyPlace(u, q))
	})
}

// figures compares how much of each rule is left according to an answer with the sends that surely
// count, and with the sends that may count.
func (j *judge) figures() {
	defer func() { j.at = time.Time{} }()
	for _, q := range j.requests {
		j.at = q.End
		if q.Quota == nil || q.OwnSendsOnly || q.MayLack || q.Kind == Check {
			continue
		}
		for _, rule := range j.Rules {
			i := slices.IndexFunc(q.Quota.Rules, func(t ruleState) bool { return t.Name == rule.Name && t.Scope == "recipient" })
			if i < 0 {
				continue
			}
			surely, maybe := j.counting(q, rule)
			j.judged[Costs]++
			left := q.Quota.Rules[i]
			if used := left.Limit - left.Remaining; used < min(left.Limit, surely) {
				j.recordViolation(Untrue, "at %s %s was told %d of %d left of %s, and %d sends count", stamp(q.End), q.Recipient, left.Remaining,
					left.Limit, rule.Name, surely)
			} else if used > maybe {
				j.recordUnlessAllowed([]allowance{
					{StaysTaken, j.mayStayTaken(rule.Name, q.Begin, q.End) || j.lostByFailover(q, rule.oldest(q.Begin))},
					{AwayForOne, j.keptWhileAway(q, rule.oldest(q.Begin).Add(-j.Skew))},
				}, Costs,
					"at %s %s was told %d of %d left of %s, and only %d sends may count", stamp(q.End),
					q.Recipient, left.Remaining,
					left.Limit, rule.Name, maybe)
			}
		}
	}
}

// counting returns how many sends surely count by a rule at an answer, and how many may.
func (j *judge) counting(q request, rule Rule) (surely, maybe int) {
	for _, s := range j.sendsOf[q.Recipient] {
		own := q.accepted() && q.answer.Send.ID == s.id
		reset := j.resetBetween(q.Recipient, s.from, q.End)
		if s.answered && (own || s.to.Before(q.Begin)) && rule.surelyOne(s.from, q.End, j.Skew) && s.outcome.Status != "failed" && !reset {
			surely++
		}
		gone := !s.failed.IsZero() && s.failed.Add(j.Slack).Before(q.Begin) ||
			slices.ContainsFunc(j.requestsOf[q.Recipient], func(u request) bool {
				return u.Kind == Reset && u.Request.Status == http.StatusNoContent && !u.Begin.Before(s.to) && !u.End.After(q.Begin)
			})
		if s.from.Before(q.End) && rule.perhapsOne(s.to, q.Begin, j.Skew) && !gone {
			maybe++
		}
	}
	for _, u := range j.requestsOf[q.Recipient] {
		if u.Kind != Send || u.accepted() || !u.Begin.Before(q.End) {
			continue
		}
		if u.uncertain() && rule.perhapsOne(u.End, q.Begin, j.Late) || j.mayOccupyPlace(u, q) {
			maybe++
		}
	}
	return surely, maybe
}

// mayOccupyPlace reports whether a send that was not admitted may hold a place during the request
// q. The limiter holds such a place for a moment, until the database has refused the send or the
// call has failed.
func (j *judge) mayOccupyPlace(u, q request) bool {
	if u.refused() {
		return j.Limiter && u.End.After(q.Begin) && u.Begin.Before(q.End) && !u.Begin.Equal(q.Begin)
	}
	return u.End.Add(j.Slack).After(q.Begin)
}

// checks finds codes that were approved wrongly, twice, or after too many attempts. It also finds
// correct codes that were refused as wrong.
func (j *judge) checks() {
	type tries struct {
		wrong    int
		approved int
		ended    time.Time // when an answer first had no tries left
	}
	code := map[string]string{}
	for _, s := range j.sends {
		if len(s.messages) > 0 {
			code[s.verification] = s.messages[0].Code
		}
	}
	triesOf := map[string]*tries{}
	for _, q := range j.requests {
		if q.Kind != Check || q.Request.Status != http.StatusOK {
			continue
		}
		j.judged[Guessing]++
		t := triesOf[q.Verification]
		if t == nil {
			t = &tries{}
			triesOf[q.Verification] = t
		}
		right, known := q.Code == code[q.Verification], code[q.Verification] != ""
		switch {
		case q.Valid:
			t.approved++
			if t.approved > 1 {
				j.recordViolation(Guessing, "%s was approved twice", q.Verification)
			}
			if known && !right {
				j.recordViolation(Guessing, "a wrong code was approved for %s", q.Verification)
			}
			if !t.ended.IsZero() && q.Begin.After(t.ended) {
				j.recordViolation(Guessing, "%s was approved when no try was left", q.Verification)
			}
		case q.answer.Status == "max_attempts_reached" && t.ended.IsZero():
			t.ended = q.End
		case q.answer.Status == "pending":
			t.wrong++
			if t.wrong >= maxTries {
				j.recordViolation(Guessing, "%s had %d wrong tries, and more were left", q.Verification, t.wrong)
			}
			if known && right {
				j.recordViolation(Guessing, "the right code was called wrong for %s", q.Verification)
			}
		case q.answer.Status == "canceled" && known && right && !slices.ContainsFunc(j.requests, func(u request) bool {
			named := u.Verification == q.Verification || u.Verification == "" && u.Recipient == q.Recipient
			return u.MayEnd && named && u.Begin.Before(q.End)
		}):
			j.recordViolation(Guessing, "the right code of %s was refused, and nothing had ended it", q.Verification)
		}
	}
}
