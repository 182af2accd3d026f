//go:build nightly

// Only `make nightly` runs these tests, since they need a checkout of other people's mails.

package feedback_test

import (
	"os"
	"path/filepath"
	"testing"

	"sendcode/internal/deliver/bounce"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// corpus is the environment variable that names the folder of a checkout of sisimai's mails
// (github.com/sisimai/set-of-emails).
const corpus = "SENDCODE_TEST_BOUNCE_MAILS"

// None of sisimai's mails suppresses a recipient, even if it names one of our mails with its HMAC,
// since they are about other mails. A mail that is not a bounce does not count as one.
func TestIngestMailCorpus(t *testing.T) {
	folder := os.Getenv(corpus)
	if folder == "" {
		t.Skipf("%s names no checkout of github.com/sisimai/set-of-emails", corpus)
	}
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		reply := "In-Reply-To: <" + r.MailServer.Attempts()[0].MessageID + ">\n"
		each := func(pattern string, do func(name string, mail []byte)) {
			names, err := filepath.Glob(filepath.Join(folder, pattern))
			if err != nil || len(names) == 0 {
				r.Fatalf("%s: no mails, %v", pattern, err)
			}
			for _, name := range names {
				mail, err := os.ReadFile(name)
				r.NoError(err)
				do(name, mail)
			}
		}
		bounces, all := 0, 0
		each("maildir/bsd/*.eml", func(name string, mail []byte) {
			if all++; len(bounce.Read(mail).Recipients) > 0 {
				bounces++
			}
			got, err := r.Svc.ProviderEvents.IngestMail(r.Context(), "postfix", append([]byte(reply), mail...))
			if err != nil || got != "other_recipient" && got != "ignored" {
				r.Errorf("%s: %s, %v", name, got, err)
			}
		})
		each("maildir/not/*.eml", func(name string, mail []byte) {
			if len(bounce.Read(mail).Recipients) > 0 {
				r.Errorf("%s is taken for a bounce", name)
			}
		})
		r.Want("suppressions", len(r.Suppressions()), 0)
		r.Logf("%d of %d are read as bounces or delays", bounces, all)
	})
}
