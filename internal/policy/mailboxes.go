package policy

import (
	"slices"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// A mailbox has any number of addresses: tags behind a plus, dots at some providers. Each is a recipient of its own, so browsers could fill
// a mailbox through them. One rule for browsers counts all spellings of a mailbox together; see recipient.Folding.Mailbox.
// It is decided with the others in one step, by the limiter alone, as all rules for browsers are.

// Spellings is the scope of that rule: what browsers of one app ask for, for all addresses of one mailbox, whatever the purpose.
const Spellings quota.Scope = "spellings"

// SpellingsName is the rule's among the rules of an answer.
const SpellingsName = "spellings"

// SpellingsBucket counts what browsers of an app ask for, for a mailbox.
func SpellingsBucket(app string, mailbox recipient.Hash) string {
	return bucket(app, recipient.Email, "", Spellings, mailbox.String())
}

// WithoutSpellings leaves the rule out of what a browser reads. It shows while it refuses, and then no more than its wait: the
// rest says how often other spellings were asked for.
func WithoutSpellings(d quota.Decision) quota.Decision {
	d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(s quota.State) bool { return s.Scope == Spellings && s.RetryAfter == 0 })
	for i, s := range d.Rules {
		if s.Scope == Spellings {
			d.Rules[i].Used, d.Rules[i].ResetAfter = s.Limit, s.RetryAfter
		}
	}
	return d
}
