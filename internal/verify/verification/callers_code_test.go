package verification_test

import (
	"strings"
	"testing"
	"time"

	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

const callersCode = "q7Kz93"

func withCode(code string, ttl time.Duration) vtest.Option {
	return func(a *verification.Request) { a.Code, a.TTL = code, ttl }
}

// The message has the caller's code unchanged, with the life that the caller gave, or no life. Each
// request opens a verification of its own, whose code the service neither sends again nor checks.
func TestACallersCode(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		text := func() string {
			mails := r.MailServer.Attempts()
			mail, err := mails[len(mails)-1].WithTexts()
			r.NoError(err)
			return mail.Text
		}
		ours := r.SendTo(vtest.Ana)
		untimed := r.SendTo(vtest.Ana, withCode(callersCode, 0))
		if got := text(); !strings.Contains(got, "\n"+callersCode+"\n") || strings.Contains(got, "minute") {
			t.Errorf("mail without a ttl:\n%s", got)
		}
		timed := r.SendTo(vtest.Ana, withCode(callersCode, 3*time.Hour))
		if got := text(); !strings.Contains(got, "\n"+callersCode+"\n") || !strings.Contains(got, "expires in 3 hours") {
			t.Errorf("mail with a ttl:\n%s", got)
		}
		vtest.Equal(r, "lives, length of the code", untimed.View.ExpiresAt.Sub(untimed.View.CreatedAt), 10*time.Minute)
		vtest.Equal(r, "lives, length of the code", timed.View.ExpiresAt.Sub(timed.View.CreatedAt), 3*time.Hour)
		vtest.Equal(r, "lives, length of the code: Length", timed.View.CodeFormat.Length, 0)
		vtest.Equal(r, "lengths of the nonces of our code", len(r.Verification(ours.View.ID).Nonce), 16)
		vtest.Equal(r, "of the caller's", len(r.Verification(timed.View.ID).Nonce), 0)
		vtest.Equal(r, "verifications of their own", ours.View.ID != untimed.View.ID, true)
		vtest.Equal(r, "verifications of their own", untimed.View.ID != timed.View.ID, true)
		vtest.Equal(r, "verifications of their own", r.SendTo(vtest.Ana).View.ID == ours.View.ID, true)
		r.WantError(r.SendError(vtest.AskFor("", vtest.Resending(timed.View.ID))), verification.ErrCallerCode)
		for range verification.MaxAttempts + 1 {
			r.WantError(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, timed.View.ID, callersCode)), verification.ErrCallerCode)
		}
		r.Want("the state", r.Get(timed.View.ID).State, "pending")
		named, err := r.Svc.CheckByRecipient(r.Context(), vtest.AskFor(vtest.Ana), r.LastCode())
		r.NoError(err)
		vtest.Equal(r, "checked without an ID: ID", named.ID, ours.View.ID)
		vtest.Equal(r, "checked without an ID: Valid", named.Valid, true)
		r.Cancel(timed.View.ID)
		r.WantError(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, timed.View.ID, callersCode)), verification.ErrCallerCode)
	})
}

// A caller's code is refused from a browser, with a verification ID or a session, and if its
// characters, its length or its TTL is out of bounds. A TTL without a code is refused, too.
func TestCallersCodesThatAreRefused(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		own := r.SendTo(vtest.Ana)
		for _, c := range []struct {
			field, reason string
			options       []vtest.Option
		}{
			{"code", "invalid", []vtest.Option{withCode("123", 0)}},
			{"code", "invalid", []vtest.Option{withCode("1234567890123", 0)}},
			{"code", "invalid", []vtest.Option{withCode("123 456", 0)}},
			{"code", "invalid", []vtest.Option{withCode("12345\n", 0)}},
			{"code", "invalid", []vtest.Option{withCode("１２３４５６", 0)}},
			{"code", "not_allowed", []vtest.Option{withCode("123456", 0), vtest.By(vtest.Browser)}},
			{"code", "not_allowed", []vtest.Option{withCode("123456", 0), vtest.Resending(own.View.ID)}},
			{"session", "not_allowed", []vtest.Option{withCode("123456", 0), vtest.InSession("s")}},
			{"ttl", "not_allowed", []vtest.Option{withCode("", time.Hour)}},
			{"ttl", "out_of_range", []vtest.Option{withCode("123456", time.Minute-1)}},
			{"ttl", "out_of_range", []vtest.Option{withCode("123456", 24*time.Hour+1)}},
		} {
			r.WantInvalid(r.SendError(vtest.AskFor(vtest.Ana, c.options...)), c.field, c.reason)
		}
		r.WantMails(1)
		for _, code := range []string{"1234", "abcDEF123456"} {
			r.SendTo(vtest.Ana, withCode(code, time.Minute))
		}
		r.SendTo(vtest.Ana, withCode("123456", 24*time.Hour))
	})
}

// If a process is killed after the 202, another process sends the same code.
func TestACallersCodeOutlivesItsProcess(t *testing.T) {
	vtest.InBubbleIdle(t, nil, func(r *vtest.Rig) {
		_, _, release := r.SendByDeadProcess(nil, withCode("739154", 0))
		r.Start()
		r.Sleep(10 * time.Second)
		r.Want("code", r.LastCode(), "739154")
		r.WantMails(1)
		release()
	})
}
