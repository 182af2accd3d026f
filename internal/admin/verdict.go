package admin

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/audit"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// verdict is what a send's page opens with: what happened, and what to do next.
type verdict struct {
	Tone       tone
	What, Next sentence
	Answer     answer
}

// matter is all that a verdict is made from.
type matter struct {
	audit.Send
	words
	code  *audit.Verification // nil for a refusal that belongs to none
	state verification.State  // of the code; empty without one
	out   bool                // a mail with the code went out, or may have
	quota *quota.Decision     // what the recipient's rules say now; nil: not known
	pause *verification.Pause // that holds now for what the row went through; nil: none
	now   time.Time

	suppressions []audit.Suppression // that stopped the row or came of it
}

// seen is what is known now, beside the log.
type seen struct {
	quota *quota.Decision
	pause *verification.Pause
}

// judge says what became of a row. Each combination of states has its sentence; testdata/verdicts holds them all.
func judge(s audit.Story, now seen, w words) verdict {
	c := matter{
		Send: s.Send, words: w, code: s.Verification, out: slices.ContainsFunc(s.Related, wentOut), quota: now.quota, pause: now.pause,
		now: s.Now, suppressions: s.Suppressions,
	}
	if c.code != nil {
		c.state = stateOf(*c.code, s.Now)
	}
	v := verdict{Tone: toneOf(s.Send.Status), Answer: answerOf(c, w)}
	switch s.Send.Status {
	case audit.Sent:
		if s.Send.Provider == "test" && s.Send.ProviderCode == "" {
			v.What, v.Next = c.about("verdict.sent.test"), c.about("next.sent.test")
			break
		}
		v.What, v.Next = c.and(c.about("verdict.sent"), c.doubt()), c.afterwards("sent")
	case audit.Delivered, audit.Undelivered:
		how := string(s.Send.Status)
		v.What, v.Next = c.about("verdict."+how), c.about("next."+how)
	case audit.Unknown:
		v.What, v.Next = c.and(c.about("verdict.unknown"), c.doubt()), c.afterwards("unknown")
	case audit.Failed:
		v.What, v.Next = c.failed()
	case audit.Refused:
		v.What, v.Next = c.refused()
	case audit.Queued:
		v.What, v.Next = c.and(c.about("verdict."+c.queuedAs()), c.doubt()), c.about("next.queued")
	default:
		v.What, v.Next = c.and(c.about("verdict.sending"), c.doubt()), c.about("next.sending")
	}
	return c.told(v, s.Events)
}

func wentOut(s audit.Send) bool {
	return s.Status == audit.Sent || s.Status == audit.Delivered || s.Status == audit.Undelivered || s.Status == audit.Unknown || s.InDoubt
}

// about fills a pattern with everything that the row and its code can say.
func (c matter) about(key string, more ...part) sentence {
	ended := c.FinishedAt
	if ended.IsZero() {
		ended = c.LoggedAt
	}
	parts := append([]part{
		plain("through", or(c.Provider, c.texts["through.unknown"])), plain("reply", c.reply()), plain("reason", c.or("reason", c.Reason)),
		plain("attempt", strconv.Itoa(c.Attempt)), at("asked", c.LoggedAt), at("ended", ended),
		at("due", c.DueAt),
	}, more...)
	if c.code != nil {
		parts = append(parts, at("until", c.code.ExpiresAt), at("approved", c.code.ApprovedAt), at("canceled", c.code.CanceledAt),
			plain("tries", strconv.Itoa(c.code.Attempts)))
	}
	return c.tell(key, parts...)
}

// reply is the server's code in brackets, or nothing.
func (c matter) reply() string {
	if c.ProviderCode == "" {
		return ""
	}
	return c.say("reply", "code", c.ProviderCode)
}

// doubt warns that an earlier attempt of the same send ended without a word.
func (c matter) doubt() sentence {
	switch {
	case !c.InDoubt:
		return nil
	case c.Status == audit.Sent:
		return c.about("doubt.sent")
	}
	return c.about("doubt.else")
}

// afterwards says what became of the code that went out, and what follows from it.
func (c matter) afterwards(how string) sentence {
	if c.state == "" {
		return c.about("next." + how + ".none")
	}
	return c.about("next." + how + "." + string(c.state))
}

func (c matter) queuedAs() string {
	if c.Reason == "" && c.ProviderCode == "" {
		return "queued.first"
	}
	return "queued"
}

func (c matter) failed() (what, next sentence) {
	switch c.Reason {
	case audit.ReasonSuppressed:
		what, next = c.suppressed()
		return what, c.and(next, c.cost())
	case audit.ReasonPaused:
		return c.and(c.about("verdict.failed.paused"), c.doubt()), c.and(c.paused(), c.cost())
	}
	kind := c.failure()
	if s, found := c.suppressionOf(audit.SuppressionID(c.ID, audit.HardBounce)); found {
		return c.and(c.about("verdict.failed."+kind), c.doubt()), c.and(c.about("next.failed."+kind), c.still("bounced", s), c.cost())
	}
	return c.and(c.about("verdict.failed."+kind), c.doubt()), c.and(c.about("next.failed."+kind), c.cost())
}

// failure sorts a failed send by who can do something about it.
func (c matter) failure() string {
	switch {
	case c.Reason == "ended" && c.state == verification.Canceled:
		return "ended.canceled"
	case c.Reason == "expired" && c.ProviderCode == "":
		return "expired.silent"
	case c.Reason != "rejected":
		if _, ok := c.texts["verdict.failed."+c.Reason]; ok {
			return c.Reason
		}
		return "other"
	}
	if c.ProviderCode == "" {
		return "rejected.silent"
	}
	// Enhanced status codes: X.1.x is about the address, X.2.x about the mailbox, X.7.x about policy (RFC 3463 section 3).
	_, enhanced, _ := strings.Cut(c.ProviderCode, " ")
	switch {
	case strings.HasPrefix(enhanced, "5.1."):
		return "rejected.address"
	case enhanced == "5.2.2":
		return "rejected.full"
	case strings.HasPrefix(enhanced, "5.2."):
		return "rejected.mailbox"
	case strings.HasPrefix(enhanced, "5.7."):
		return "rejected.policy"
	}
	return "rejected"
}

// cost says whether a failure took a place in the recipient's quota.
func (c matter) cost() sentence {
	if c.Counts {
		return c.about("cost.counted")
	}
	return c.about("cost.nothing")
}

func (c matter) refused() (what, next sentence) {
	rule, wait := strong("rule", c.BlockedBy), plain("wait", c.wait(c.RetryAfter))
	what = c.about(c.pluralKey("verdict.refused", c.Count), rule, wait, plain("n", strconv.Itoa(c.Count)))
	next = c.again()
	if c.state == verification.Pending && c.out {
		next = c.and(next, c.about("next.refused.code"))
	}
	return what, next
}

// again says when the next request is let in: by what the rules say now, where they say something about the rule that
// refused. A rule that looks at more than the recipient, their network for example, is not among them.
func (c matter) again() sentence {
	if c.quota == nil {
		return c.later()
	}
	if !c.speaksOf(c.BlockedBy) {
		return c.and(c.about("next.refused.elsewhere"), c.later())
	}
	if worst, blocked := c.quota.Blocking(); blocked {
		return c.about("next.refused.wait", at("free", freeAt(*c.quota, worst)), strong("rule", worst.Name))
	}
	return c.about("next.refused.free")
}

// later is what the row alone can say. Of several requests it knows when the first came and what the last was told,
// which together give no instant.
func (c matter) later() sentence {
	if c.Count > 1 {
		return c.about("next.refused.later")
	}
	return c.about("next.refused.from", at("free", c.LoggedAt.Add(c.RetryAfter)))
}

func (c matter) speaksOf(rule string) bool {
	return slices.ContainsFunc(c.quota.Rules, func(s quota.State) bool { return s.Name == rule })
}

// freeAt is when a rule lets one more in, rounded up to whole seconds: never early.
func freeAt(d quota.Decision, s quota.State) time.Time {
	free := d.At.Add(s.RetryAfter)
	if whole := free.Truncate(time.Second); whole.Before(free) {
		return whole.Add(time.Second)
	}
	return free
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
