package support_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/testmessage"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A test message is an app's own message, sent by the servers that send its codes. At most one is
// tried in a minute. It counts for no rule of codes, and is recorded only in the audit log. A
// recipient that gets no codes gets no test message.
func TestSendTestMessage(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		send := func(app, to string) (testmessage.Result, error) {
			act := vtest.AuditEntry(support.TestMessageAction)
			return r.Svc.Administration.SendTestMessage(r.Context(), app, to, "es", act)
		}
		r.WantInvalid(vtest.Err(send("other", vtest.Ana)), "app", "unknown")
		if _, err := send("shop", "ana"); err == nil {
			r.Error("sent to no address")
		}
		got, err := send("shop", vtest.Ana)
		r.NoError(err)
		vtest.Equal(r, "accepted", got.Accepted, true)
		vtest.Equal(r, "to", got.To, "a•••@example.com")
		_, err = send("shop", "bo@example.com")
		limited, ok := errors.AsType[*support.TestMessageLimitError](err)
		r.Want("refused within a minute", ok && limited.RetryAfter <= time.Minute, true)
		r.Sleep(time.Minute)
		r.MailServer.Answer(vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.1.1"))
		got, err = send("shop", "bo@example.com")
		r.NoError(err)
		r.Want("accepted", got.Accepted, false)
		r.Sleep(time.Minute)
		r.NoError(vtest.Err(r.Svc.Administration.Suppress(r.Context(),
			support.SuppressRequest{Channel: "email", To: vtest.Ana, Reason: "asked"}, vtest.AuditEntry("suppression.add"))))
		r.WantError(vtest.Err(send("shop", vtest.Ana)), support.ErrSuppressed)
		rows, err := r.Store.Sends(r.Context(), store.Filter{Limit: 10})
		r.NoError(err)
		r.Want("sends in the database", len(rows), 0)
	})
}
