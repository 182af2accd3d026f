package console

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sendcode/internal/base/panics"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	"sendcode/quota"
	"sendcode/web"
)

// sendRow is a send, as lists show it.
type sendRow struct {
	store.SendOrRefusal
	W     texts.Words
	Code  explain.StateLabel // the state of the code; empty if there is no code or the state is unknown
	Left  time.Duration      // how long the code can still be entered; 0: it cannot
	Quota []web.Pips         // the state of the recipient's rules; nil: unknown
}

// RecipientText returns the masked recipient. If the row stands for several recipients,
// RecipientText returns "and n more recipients" or "and many more recipients".
func (r sendRow) RecipientText() string {
	switch {
	case r.Recipients >= store.ManyRecipients:
		return r.W.Get("list.recipients.many")
	case r.Recipients > 0:
		return r.W.Plural("list.recipients", r.Recipients)
	}
	return r.To
}

// RecipientTag returns a short text that tells recipients with equal masks apart. It returns "" for
// a forgotten recipient and for a row of several recipients.
func (r sendRow) RecipientTag() string {
	if r.Recipients > 0 {
		return ""
	}
	return r.Recipient.Tag()
}

// StrictestRule returns the rule that blocks longest or, if no rule blocks, the rule whose limit is
// used up most. The quota must be known.
func (r sendRow) StrictestRule() []web.Pips {
	return []web.Pips{slices.MinFunc(r.Quota, func(a, b web.Pips) int {
		return cmp.Or(cmp.Compare(b.Left.MS, a.Left.MS), cmp.Compare(b.Used*a.Limit, a.Used*b.Limit))
	})}
}

// RequestedLocale returns the language that was requested; "" if any language would do.
func (r sendRow) RequestedLocale() string { return explain.RequestedLocale(r.SendOrRefusal) }

// statusSigns are signs that lists show beside the words, so that a reader can tell the states
// apart quickly without colours.
var statusSigns = map[store.Status]string{
	store.Sent: "✓", store.Delivered: "✓", store.Undelivered: "✕", store.Failed: "✕", store.Refused: "‖",
	store.Unknown: "?",
	store.Queued:  "…", store.Sending: "→",
}

// State returns the status as a label.
func (r sendRow) State() explain.StateLabel {
	return explain.StateLabel{
		Sign: statusSigns[r.Status], Word: r.W.Or("status", string(r.Status)),
		Tone: explain.ToneOf(r.Status),
	}
}

// Why returns the reason for the row's status in words. For a send, this is the failure, the
// server's code and further facts: "mailbox full · 552 5.2.2 · did not count". For a refusal, it is
// the rule, the wait and the number of refusals: "minute · 42 s left · ×3".
func (r sendRow) Why() string {
	var parts []string
	add := func(is bool, text string) {
		if is && text != "" {
			parts = append(parts, text)
		}
	}
	refused := r.Status == store.Refused
	add(refused, r.BlockedBy)
	add(refused, r.W.Get("why.wait", "wait", r.W.Wait(r.RetryAfter)))
	add(refused && r.Count > 1, "×"+strconv.Itoa(r.Count))
	failure := explain.FailureText(r.Send, r.W)
	if failure == "" && r.Status == store.Undelivered {
		failure = r.W.Get("why.undelivered." + string(r.Channel))
	}
	add(!refused, failure)
	// the code of an accepted message says nothing more
	add(!refused && r.Status != store.Sent && r.Status != store.Delivered && r.ProviderCode != "", r.W.Get("why.code", "code", r.ProviderCode))
	add(r.Status == store.Queued && r.Attempt > 0, r.W.Get("why.again"))
	add(r.Status == store.Failed && !r.Counts, r.W.Get("why.given_back"))
	add(r.WasReset, r.W.Get("why.reset"))
	add(r.InDoubt, r.W.Get("why.doubt"))
	add(r.WorstEvent != "", r.W.Or("provider_event", string(r.WorstEvent)))
	return strings.Join(parts, " · ")
}

// These constants bound how the quotas of one page are read. The page omits each quota that was not
// read in time.
const (
	maxConcurrentQuotas = 4
	quotasTimeout       = 500 * time.Millisecond
)

// currentCodes has the verifications of some sends by ID, as they were when the database read them.
type currentCodes struct {
	byID map[string]store.Verification
	now  time.Time
}

// codesOf reads the codes of up to 1,000 sends.
func (console *Console) codesOf(ctx context.Context, sends []store.SendOrRefusal) (currentCodes, error) {
	var ids []string
	for _, s := range sends {
		if s.Number > 0 {
			ids = append(ids, s.VerificationID)
		}
	}
	slices.Sort(ids)
	all, now, err := console.DB.VerificationsByID(ctx, slices.Compact(ids))
	c := currentCodes{byID: map[string]store.Verification{}, now: now}
	for _, v := range all {
		c.byID[v.ID] = v
	}
	return c, err
}

// ofSend returns the code of a send. The result is false for a refusal and for a code that the
// database no longer has.
func (c currentCodes) ofSend(s store.SendOrRefusal) (store.Verification, bool) {
	v, found := c.byID[s.VerificationID]
	return v, found && s.Number > 0
}

// rowJSON returns a send as JSON for scripts, with the outcome of its code.
func (c currentCodes) rowJSON(s store.SendOrRefusal) layout.JSONObject {
	row := rowJSONWithoutOutcome(s)
	row["outcome"], row["outcome_at"] = nil, nil
	if v, found := c.ofSend(s); found {
		row["outcome"], row["outcome_at"] = explain.CodeStateOf(v, c.now),
			layout.Timestamp(explain.CodeEndedAt(v, c.now))
	}
	return row
}

// rowsWithState returns the rows of sends, with the present states of their codes and quotas. It
// returns an error only if the codes could not be read.
func (console *Console) rowsWithState(ctx context.Context, sends []store.SendOrRefusal, w texts.Words) ([]sendRow, error) {
	codes, err := console.codesOf(ctx, sends)
	if err != nil {
		return nil, err
	}
	quotas := console.quotaPipsOf(ctx, sends, w)
	var all []sendRow
	for _, s := range sends {
		r := sendRow{SendOrRefusal: s, W: w}
		if q := quotas[targetOf(s)]; q != nil {
			r.Quota = *q
		}
		if v, found := codes.ofSend(s); found {
			if state, shown := shownCodeState(v, s, codes.now); shown {
				r.Code = codeLabel(state, w)
				if state == store.CodeWaiting {
					r.Left = v.ExpiresAt.Sub(codes.now)
				}
			}
		}
		all = append(all, r)
	}
	return all, nil
}

// shownCodeState returns the state of a send's code. The result shown is false for a pending or
// expired code if the message was not delivered or the recipient was erased. In both cases the code
// could not be entered.
func shownCodeState(v store.Verification, s store.SendOrRefusal, now time.Time) (state store.CodeState, shown bool) {
	state = explain.CodeStateOf(v, now)
	over := state == store.CodeWaiting || state == store.CodeExpired
	return state, !over || !explain.NotDelivered(s) && s.To != store.ErasedMask
}

func codeLabel(state store.CodeState, w texts.Words) explain.StateLabel {
	l := map[store.CodeState]explain.StateLabel{
		store.CodeEntered: {Sign: "✓", Tone: explain.Good}, store.CodeWaiting: {Sign: "…", Tone: explain.Neutral},
		store.CodeExpired: {Sign: "–", Tone: explain.Warn}, store.CodeUsedUp: {Sign: "✕", Tone: explain.Bad},
		store.CodeCanceled: {Sign: "–", Tone: explain.Warn}, store.CodeOfCaller: {Sign: "→", Tone: explain.Neutral},
	}[state]
	l.Word = w.Get("outcome.code." + string(state))
	return l
}

// quotaPipsOf returns the quotas of the sends' recipients. It returns a list for each combination
// of app, channel, purpose and recipient. Each element of a list shows one rule as a row of marks.
// If the quota could not be read in time, the list is empty. Forgotten recipients, and rows of
// several recipients, have no list.
func (console *Console) quotaPipsOf(ctx context.Context, sends []store.SendOrRefusal, w texts.Words) map[support.Target]*[]web.Pips {
	ctx, cancel := context.WithTimeout(ctx, quotasTimeout)
	defer cancel()
	pips := map[support.Target]*[]web.Pips{}
	var all errgroup.Group
	all.SetLimit(maxConcurrentQuotas)
	for _, s := range sends {
		p := targetOf(s)
		if pips[p] != nil || s.Recipient.IsZero() || s.Recipients > 0 {
			continue
		}
		shown := new([]web.Pips)
		pips[p] = shown
		all.Go(func() error {
			defer panics.Recover(panics.Request)
			if d, err := console.Administration.Codes.RecipientQuota(ctx, p.App, p.Channel, p.Purpose, p.Recipient,
				store.SecretKeyClass); err == nil {
				*shown = quotaPips(d, w)
			}
			return nil
		})
	}
	_ = all.Wait()
	return pips
}

// quotaPips returns the pips of each of a recipient's rules.
func quotaPips(d quota.Decision, w texts.Words) (all []web.Pips) {
	for _, s := range d.Public().Rules {
		p := web.PipsOf(s)
		p.Name, p.Note = s.Name, w.Plural("quota.left", s.Remaining())
		if p.Blocked {
			p.Note = w.Get("quota.free", "wait", w.Wait(s.RetryAfter))
			p.Left = web.ConsoleCountdown{MS: quota.Milliseconds(s.RetryAfter), Pattern: w.Get("quota.free"), Over: w.Get("quota.over")}
		}
		p.Spoken = w.Get("quota.used", "used", strconv.Itoa(s.Used), "limit", strconv.Itoa(s.Limit))
		all = append(all, p)
	}
	return all
}
