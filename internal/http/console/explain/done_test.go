package explain

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// After each action the page describes the state of the rows. It never says that a waiting message
// is on its way, and never that a person can ask again if something else refuses that person.
func TestDoneByState(t *testing.T) {
	now := time.Date(2026, 3, 4, 14, 2, 20, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	code := func(change func(*store.Verification)) *store.Verification {
		v := &store.Verification{ID: "v1", CreatedAt: at(-time.Minute), ExpiresAt: at(9 * time.Minute), MaxAttempts: 5}
		if change != nil {
			change(v)
		}
		return v
	}
	row := func(minutes int, status store.Status, change func(*store.SendOrRefusal)) store.SendOrRefusal {
		s := store.SendOrRefusal{Send: store.Send{
			ID: uuid.UUID{15: byte(100 + minutes)}, App: "shop", Channel: "email", Purpose: "login", To: "a•••@example.com",
			Status: status, VerificationID: "v1", LoggedAt: at(time.Duration(minutes) * time.Minute), Provider: "mx1.example.net",
		}}
		if change != nil {
			change(&s)
		}
		return s
	}
	first := row(-1, store.Sent, nil)
	resent := func(status store.Status, change func(*store.SendOrRefusal)) store.SendDetails {
		again := row(0, status, change)
		return store.SendDetails{Send: first, Verification: code(nil), Related: []store.SendOrRefusal{first, again}, Now: now}
	}
	reason := func(why string) func(*store.SendOrRefusal) {
		return func(s *store.SendOrRefusal) { s.Reason, s.Provider = why, "" }
	}
	refused := func(rule string, change func(*store.SendOrRefusal)) store.SendDetails {
		s := row(-1, store.Refused, func(s *store.SendOrRefusal) {
			s.VerificationID, s.BlockedBy, s.RetryAfter, s.Count = "", rule, 10*time.Minute, 1
			if change != nil {
				change(s)
			}
		})
		return store.SendDetails{Send: s, Related: []store.SendOrRefusal{s}, Now: now}
	}
	quotaOf := func(blocks string) *quota.Decision {
		rule := quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute}
		d := &quota.Decision{At: now, Rules: []quota.State{{Rule: rule}}}
		if blocks != "" {
			d.Rules[0].Name, d.Rules[0].RetryAfter, d.Rules[0].Used = blocks, 30*time.Second, 1
		}
		return d
	}
	free, held := VerdictFacts{Quota: quotaOf("")}, VerdictFacts{Quota: quotaOf(policy.CarrierName)}
	with := func(change func(*VerdictFacts)) VerdictFacts {
		f := VerdictFacts{Quota: quotaOf("")}
		change(&f)
		return f
	}
	withCode := func(change func(*store.Verification)) store.SendDetails {
		return store.SendDetails{Send: first, Verification: code(change), Related: []store.SendOrRefusal{first}, Now: now}
	}
	canceled := func(v *store.Verification) { v.CanceledAt = now }
	approved := func(v *store.Verification) { v.ApprovedAt = now }
	underWay := store.SendDetails{Send: row(-1, store.Sending, nil), Verification: code(canceled), Now: now}
	erased := row(-1, store.Sent, func(s *store.SendOrRefusal) { s.To = store.ErasedMask })
	unserved := func(s *store.SendOrRefusal) { s.RetryAfter = 0 }
	suppressed := &store.Suppression{Since: at(-time.Minute), Until: at(time.Hour)}
	twice := resent(store.Failed, reason("spend_cap"))
	twice.Related = append(twice.Related, row(1, store.Sent, nil), row(2, store.Refused, nil))
	earlier := withCode(nil)
	earlier.Related = append(earlier.Related, row(-3, store.Failed, reason("spend_cap")))
	ofPrefix := func(until time.Time) store.SendDetails {
		s := refused("minute", nil)
		s.Pause = &store.PrefixPause{Since: at(-time.Hour), Until: until}
		return s
	}
	for name, c := range map[string]struct {
		act   Act
		story store.SendDetails
		facts VerdictFacts
		says  string
		tone  Tone
	}{
		"resent, accepted":    {Resent, resent(store.Sent, nil), free, "Sent again at T: mx1.example.net accepted it.", Good},
		"resent, delivered":   {Resent, resent(store.Delivered, nil), free, "Sent again at T, and delivered by mx1.example.net.", Good},
		"resent, queued":      {Resent, resent(store.Queued, reason("")), free, "Another message was asked for at T, and nothing has accepted it yet. Its own page shows what becomes of it.", Warn},
		"resent, sending":     {Resent, resent(store.Sending, reason("")), free, "Another message was asked for at T, and nothing has accepted it yet. Its own page shows what becomes of it.", Warn},
		"resent, unknown":     {Resent, resent(store.Unknown, nil), free, "Another message was tried at T, and it is not known whether it went out.", Warn},
		"resent, undelivered": {Resent, resent(store.Undelivered, nil), free, "Another message went out at T, and was not delivered.", Warn},
		"resent, suppressed":  {Resent, resent(store.Failed, reason(store.ReasonSuppressed)), free, "Nothing was sent: this recipient gets no messages. Lift the suppression first.", Warn},
		"resent, paused":      {Resent, resent(store.Failed, reason(store.ReasonPaused)), free, "Nothing was sent: messages to this recipient are paused.", Warn},
		"resent, ended":       {Resent, resent(store.Failed, reason(store.ReasonEnded)), free, "Nothing was sent: the code was no longer needed.", Warn},
		"resent, cap":         {Resent, resent(store.Failed, reason("spend_cap")), free, "Nothing was sent: a spending cap is reached. The attempt at T is a send of its own in the list.", Warn},
		"resent twice":        {Resent, twice, free, "Sent again at T: mx1.example.net accepted it.", Good},
		"not resent":          {Resent, withCode(nil), free, "", ""},
		"not resent since":    {Resent, earlier, free, "", ""},
		"reset, free":         {QuotaReset, refused("minute", nil), free, "The quota is reset: they can ask again now.", Good},
		"reset of a send":     {QuotaReset, resent(store.Sent, nil), free, "The quota is reset: they can ask again now.", Good},
		"reset, suppressed":   {QuotaReset, refused("minute", nil), with(func(f *VerdictFacts) { f.Suppression = suppressed }), "The quota is reset, but nothing will be sent: this recipient gets no messages. Lift the suppression first.", Warn},
		"reset, suppressed by the story": {QuotaReset, store.SendDetails{Send: first, Now: now, Suppressions: []store.Suppression{*suppressed}}, free,
			"The quota is reset, but nothing will be sent: this recipient gets no messages. Lift the suppression first.", Warn},
		"reset, paused":            {QuotaReset, refused("minute", nil), with(func(f *VerdictFacts) { f.Pause = &policy.Pause{Since: now} }), "The quota is reset, but nothing will be sent: messages to this recipient are paused.", Warn},
		"reset, prefix paused":     {QuotaReset, ofPrefix(at(time.Minute)), free, "The quota is reset, but nothing will be sent: messages to this recipient are paused.", Warn},
		"reset, pause over":        {QuotaReset, ofPrefix(at(-time.Minute)), free, "The quota is reset: they can ask again now.", Good},
		"reset, carrier holds":     {QuotaReset, refused("minute", nil), held, "The quota is reset, but another code may still be refused. They can ask again at T; until then the rule carrier allows no more.", Warn},
		"reset, limiter away":      {QuotaReset, refused("minute", nil), VerdictFacts{}, "The quota is reset. Whether they can ask again now is not known, because the limiter does not answer.", Warn},
		"reset, network's rule":    {QuotaReset, refused("network", nil), with(func(f *VerdictFacts) { f.RuleScope = quota.Network }), "The quota of this recipient is reset, and the rule network that refused them is not: it counts others, too, and may refuse them again.", Warn},
		"reset, breaker":           {QuotaReset, refused(policy.BreakerName, nil), free, "The quota of this recipient is reset, and the rule breaker that refused them is not: it counts others, too, and may refuse them again.", Warn},
		"reset, breaker long over": {QuotaReset, refused(policy.BreakerName, func(s *store.SendOrRefusal) { s.RetryAfter = time.Second }), free, "The quota is reset: they can ask again now.", Good},
		"reset, not served": {QuotaReset, refused(policy.ReasonDisposable, unserved), free,
			"The quota is reset, but they still get no code. Codes are not sent to this domain: it is on the list of domains for short-lived addresses.", Warn},
		"reset, locked out": {QuotaReset, refused("minute", nil), with(func(f *VerdictFacts) {
			f.Locks = []store.Lockout{{Class: store.StrangerClass, Wait: time.Hour, Failures: 20}}
		}), "The quota is reset, but another code may still be refused. ", Warn},
		"canceled": {CodeCanceled, withCode(canceled), free, "The code is canceled: it no longer works.", Good},
		"canceled, under way": {CodeCanceled, underWay, free,
			"The code is canceled: it no longer works. Its message is under way and may still arrive.", Good},
		"not canceled":                   {CodeCanceled, withCode(nil), free, "", ""},
		"entered before it was canceled": {CodeCanceled, withCode(approved), free, "", ""},
		"erased":                         {PersonErased, store.SendDetails{Send: erased, Now: now}, free, "The recipient is erased.", Good},
		"not erased":                     {PersonErased, store.SendDetails{Send: first, Now: now}, free, "", ""},
		"no such act":                    {"other", store.SendDetails{Send: first, Now: now}, free, "", ""},
	} {
		got := Done(c.act, c.story, c.facts, texts.ConsoleTextsFor(""))
		text := instant.ReplaceAllString(got.Text.String(), "T")
		if name == "reset, locked out" && len(text) > len(c.says) { // verdicts_test.go has the sentence that follows
			text = text[:len(c.says)]
		}
		servertest.Same(t, name, text, c.says)
		servertest.Same(t, name+": tone", got.Tone, c.tone)
		if zh := Done(c.act, c.story, c.facts, texts.ConsoleTextsFor("zh")); (len(zh.Text) == 0) != (len(got.Text) == 0) {
			t.Errorf("%s: in Chinese: %q", name, zh.Text)
		}
	}
}

// instant matches a time in a sentence.
var instant = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC)?`)
