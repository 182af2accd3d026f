package policy

import (
	"slices"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// A mailbox has many spellings: tags after a plus, dots at some providers. Each spelling is a recipient, so browsers could flood a mailbox
// through them. So one rule for browsers counts all spellings of a mailbox together; see recipient.Hashes. Like all rules
// for browsers, only the limiter decides it, together with the other rules.

// Spellings is the scope of that rule: requests by browsers of one app to all spellings of one mailbox, for all purposes.
const Spellings quota.Scope = "spellings"

// SpellingsName is the name of that rule in answers.
const SpellingsName = "spellings"

// SpellingsBucket returns the bucket of that rule for a mailbox.
func SpellingsBucket(app string, mailbox recipient.Hash) string {
	return bucket(app, recipient.Email, "", Spellings, mailbox.String())
}

// WithoutSpellings removes the rule on spellings from a decision for browsers. While it refuses, it stays, but shows only its wait: its
// counts would reveal requests for other spellings.
func WithoutSpellings(d quota.Decision) quota.Decision {
	d.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(s quota.State) bool { return s.Scope == Spellings && s.RetryAfter == 0 })
	for i, s := range d.Rules {
		if s.Scope == Spellings {
			d.Rules[i].Used, d.Rules[i].ResetAfter = s.Limit, s.RetryAfter
		}
	}
	return d
}
