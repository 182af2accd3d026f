package app_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/run/app/apptest"
)

// The details that a secret key gives are in the mail, in the console, and in the proof, as text
// and as a hash. Other details make another verification. A check by recipient approves the code of
// the newest verification.
func TestDetailsOfACode(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Policy("    - {name: ten, scope: recipient, limit: 10, window: 1m}\n").Start(1)
		const to, first, second = "ana@example.org", "Pay 40.00 EUR to Shop 12", "Pay 41.00 EUR to Shop 12 & Söhne"
		ask := func(details, more string, change ...func(*http.Request)) apptest.Answer {
			return s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"trust":"known","details":%q%s}`, to, details, more), append(change, apptest.Patiently)...)
		}
		a, again, b, plain := ask(first, ""), ask(first, ""), ask(second, ""), ask("", "")
		s.Is("verifications", a, http.StatusAccepted, a.ID == again.ID, a.ID != b.ID, plain.ID != a.ID, plain.ID != b.ID,
			strings.Contains(string(a.Raw), `"details":"`+first+`"`))
		s.Is("a resend of the first", ask("", `,"verification_id":"`+a.ID+`"`), http.StatusAccepted)
		named := ask(second, `,"verification_id":"`+a.ID+`"`)
		s.Is("other details of one that is named", named, http.StatusUnprocessableEntity, named.Field == "details")
		key := apptest.WithKey("order-12-details")
		s.Is("a repetition", ask("", "", key), http.StatusAccepted)
		s.Is("other details with the key", ask(second, "", key), http.StatusUnprocessableEntity)
		back := ask(first, "")
		s.Is("the first again, after others", back, http.StatusAccepted, back.ID != a.ID)
		mails := s.AwaitMail(to, 7)
		slices.SortFunc(mails, func(a, b apptest.Letter) int { return a.At.Compare(b.At) })
		for i, want := range []string{first, first, "Pay 41.00 EUR to Shop 12 &", "", first, "", first} {
			if text := strings.ReplaceAll(mails[i].Text, "=\r\n", ""); strings.Contains(text, "Pay 4") != (want != "") || !strings.Contains(text, want) {
				s.Errorf("mail %d does not say %q alone: %s", i+1, want, text)
			}
		}
		if s.CodeIn(mails[2]) == s.CodeIn(mails[0]) {
			s.Error("one code confirms two things")
		}
		s.Is("the first", s.Post("/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"code":%q}`, to, s.CodeIn(mails[0]))), http.StatusOK,
			!s.Post("/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"code":%q}`, to, s.CodeIn(mails[2]))).Valid,
			s.Post("/v1/verifications/check", fmt.Sprintf(`{"channel":"email","to":%q,"code":%q}`, to, s.CodeIn(mails[6]))).Valid)
		approved := s.Check(0, b.ID, s.CodeIn(mails[2]))
		claims, err := base64.RawURLEncoding.DecodeString(strings.Split(approved.Proof+"..", ".")[1])
		if want := fmt.Sprintf(`"details":"Pay 41.00 EUR to Shop 12 \u0026 Söhne","details_sha256":"%x"`, sha256.Sum256([]byte(second))); err != nil ||
			!strings.Contains(string(claims), want) {
			s.Errorf("the proof has %s, %v", claims, err)
		}
		story := s.Get("/v1/admin/sends/"+b.Send.ID, apptest.AsAdmin)
		s.Is("the console", story, http.StatusOK, strings.Contains(string(story.Raw), `"details":"Pay 41.00 EUR to Shop 12`))
		s.Is("erasure", s.ByAdmin(0, "/v1/admin/erase", `{"channel":"email","to":"`+to+`","reason":"asked"}`), http.StatusNoContent)
		story = s.Get("/v1/admin/sends/"+b.Send.ID, apptest.AsAdmin)
		s.Is("after the erasure", story, http.StatusOK, !strings.Contains(string(story.Raw), "Pay 4"))
	})
}
