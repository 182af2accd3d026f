package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/explain"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

// A refusal that a back end met belongs to no code; its recipient may have one all the same, and is told until when it works.
func TestRefusalNamesTheCodeThatTheyHave(t *testing.T) {
	r := newRig(t)
	failed := r.begin("ana@example.com")
	r.finish(failed.Send, store.Outcome{Status: store.Failed, Reason: "rejected", Refund: true})
	r.clock.Add(time.Minute)
	sent := r.sent("ana@example.com")
	r.clock.Add(time.Second)
	row := r.refused("ana@example.com", "minute", 42*time.Second, 1)
	other := r.refused("ana@example.com", "minute", 42*time.Second, 1, func(s *store.Send) { s.Purpose = "signup" })
	b := r.loggedIn()
	until := r.verification(sent).ExpiresAt.UTC().Format("15:04:05")
	contains(t, b.Get(explain.SendAddress(row.ID)), "The code that they have works until", until+"</time>.", "The code that you have already works until")
	lacks(t, b.Get(explain.SendAddress(other.ID)), "The code that they have")
	lost := r.begin("bo@example.com")
	r.finish(lost.Send, store.Outcome{Status: store.Failed, Reason: "rejected", Refund: true})
	lacks(t, b.Get(explain.SendAddress(r.refused("bo@example.com", "minute", time.Second, 1).ID)), "The code that they have") // it never went out
	r.clock.Add(11 * time.Minute)
	lacks(t, b.Get(explain.SendAddress(row.ID)), "The code that they have")
	r.log.SetFault(func(op string) sqlite.Fault {
		if op == "Sends" {
			return sqlite.Down
		}
		return 0
	})
	want(t, b.Get(explain.SendAddress(row.ID)), http.StatusServiceUnavailable)
}

func (r *rig) verification(s store.Send) store.Verification {
	r.Helper()
	v, _, _, err := r.log.Verification(r.Context(), s.VerificationID)
	r.must(err)
	return v
}

// An old request leads on to the newest one like it, and the newest to none.
func TestOldRequestLeadsToTheNewest(t *testing.T) {
	r := newRig(t)
	old := r.sent("ana@example.com")
	r.clock.Add(20 * time.Minute)
	last := r.sent("ana@example.com")
	r.sent("bo@example.com")
	r.refused("ana@example.com", "minute", time.Second, 1, func(s *store.Send) { s.App = "desk" })
	b := r.loggedIn()
	contains(t, b.Get(explain.SendAddress(old.ID)), `<p class="newer">They asked again at`, ": sent.", `<a href="`+explain.SendAddress(last.ID)+`">See that request</a>`)
	lacks(t, b.Get(explain.SendAddress(last.ID)), "They asked again")
}

// Whose requests a rule counts is said of those in force, for the purpose of the row.
func TestRefusalSaysWhomItsRuleCounts(t *testing.T) {
	r := newRig(t)
	for rule, scope := range map[string]quota.Scope{"minute": quota.Recipient, "gone": ""} {
		if got := r.console.scopeOf(store.Send{Purpose: "login", BlockedBy: rule}); got != scope {
			t.Errorf("%s counts %q", rule, got)
		}
	}
	if got := r.console.scopeOf(store.Send{Purpose: "signup", BlockedBy: "minute"}); got != "" {
		t.Errorf("another purpose's counts %q", got)
	}
	row := r.refused("ana@example.com", "gone", time.Minute, 1)
	rec := r.loggedIn().Get(explain.SendAddress(row.ID))
	contains(t, rec, "This rule looks at more than the recipient")
	if strings.Contains(rec.Body.String(), "It counts") {
		t.Error("it says whom a rule counts that there is no more")
	}
}

// Those who were forgotten share the hash of nobody: none of their pages tells of another, or leads to them all as if they were one.
func TestForgottenHaveNothingInCommon(t *testing.T) {
	r := newRig(t)
	act := func() store.AuditEntry {
		return store.AuditEntry{ID: r.id(), Who: "mei", Role: "owner", What: "recipient.erase", Reason: "asked", Outcome: store.AuditDone}
	}
	other := r.sent("bo@example.com")
	r.clock.Add(time.Second)
	row := r.refused("ana@example.com", "minute", time.Minute, 1)
	for _, to := range []string{"ana@example.com", "bo@example.com"} {
		_, h := r.recipient(to)
		_, _, err := r.log.Suppress(t.Context(), store.Suppression{
			ID: r.id(), Channel: recipient.Email, Address: h, Recipient: h, To: to, Cause: store.HardBounce, Detail: "550 5.1.1",
		}, time.Minute, nil)
		r.must(err)
		r.must(r.log.Erase(t.Context(), h, time.Hour, act()))
	}
	r.clock.Add(time.Hour)
	n, err := r.log.Forget(t.Context())
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	b := r.loggedIn()
	rec := b.Get(explain.SendAddress(row.ID))
	want(t, rec, http.StatusOK)
	lacks(t, rec, other.ID.String(), "everything of this recipient", strings.Repeat("0", 32))
	lacks(t, b.Get("/v1/admin/sends/"+row.ID.String()), other.ID.String())
	page := b.Get("/admin/suppressions?state=all")
	contains(t, page, "550 5.1.1", store.Erased)
	lacks(t, page, `<a href="">`, strings.Repeat("0", 32)+`">`+store.Erased)
	contains(t, b.Get(explain.SendAddress(r.sent("cleo@example.com").ID)), "everything of this recipient")
}

// What is copied is the reply as it is seen, without a rule's name.
func TestAnswerOnThePage(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	sent := r.sent("ana@example.com", func(s *store.Send) { s.Locale = "zh-CN" })
	contains(t, b.Get("/admin/sends/"+sent.ID.String()), `<blockquote id="answer" lang="zh-Hans">我们已向 a•••@example.com 发送验证码`,
		`data-copy="answer"`, "A reply to copy", `以上时间为 <span data-zone>UTC</span>。`)
}
