package explain

import (
	"testing"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// The page Policies has a name for rules of each scope, and each refusal by such a rule has an
// explanation.
func TestEveryScopeHasItsTexts(t *testing.T) {
	for _, scope := range append(policy.RuleScopes, policy.BackoffScope, policy.UnnamedScope, policy.BreakerScope) {
		for _, kind := range []string{"scope.", "wide.", "next.wide."} {
			if !texts.ConsoleTextsFor("").Has(kind+string(scope)) && (kind == "scope." || scope != quota.Recipient && scope != policy.BreakerScope) {
				t.Errorf("no text %s%s", kind, scope)
			}
		}
	}
}

// The list gives the reason for a failed send in words. If the server's code is more specific than
// our reason, the words come from the code.
func TestFailureText(t *testing.T) {
	w := texts.ConsoleLanguages()[0]
	for _, c := range []struct {
		status       store.Status
		reason, code string
		want         string
	}{
		{store.Failed, store.ReasonRejected, "552 5.2.2", "mailbox full"},
		{store.Failed, store.ReasonRejected, "550 5.1.1", "no such address"},
		{store.Failed, store.ReasonRejected, "554", "rejected by the server"},
		{store.Failed, "expired", "452 4.2.2", "the code expired first · mailbox full"},
		{store.Queued, "temporary_rcpt", "452 4.2.2", "mailbox full"},
		{store.Queued, "temporary_rcpt", "450 4.7.1", "put off at the recipient"},
		{store.Sent, "", "250 2.0.0", ""},
		{store.Failed, store.ReasonPaused, "", "paused"},
	} {
		if got := FailureText(store.Send{Status: c.status, Reason: c.reason, ProviderCode: c.code}, w); got != c.want {
			t.Errorf("%s %s %s: %q, want %q", c.status, c.reason, c.code, got, c.want)
		}
	}
}

func TestSuppressionSummary(t *testing.T) {
	w := texts.ConsoleLanguages()[0]
	for _, c := range []struct {
		s    store.Suppression
		want string
	}{
		{store.Suppression{Cause: store.CauseComplaint}, "called a mail spam"},
		{store.Suppression{Cause: store.CauseHardBounce, Detail: "550 5.1.1"}, "no such mailbox · 550 5.1.1"},
		{store.Suppression{Cause: store.CauseManual, Detail: "asked", By: "mei"}, "by hand · asked · mei"},
		{store.Suppression{Cause: "of a later version"}, "of a later version"},
	} {
		if got := SuppressionSummary(c.s, w); got != c.want {
			t.Errorf("%+v: %q, want %q", c.s, got, c.want)
		}
	}
}
