package app

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// One short reference is in the mail, in the answers and on the page; it finds the send, and gives no hold over anything.
func TestSupportReference(t *testing.T) {
	onEach(t, func(s *stack) {
		s.tenants().start(1)
		a := s.do(0, "POST", "/v1/verifications", `{"channel":"email","to":"`+ana+`"}`, as(publicKey))
		mail := s.awaitMail(ana, 1)[0]
		ref := regexp.MustCompile(`S-[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(mail.text)
		if ref == "" || ref != store.SupportReference(uuid.MustParse(a.Send.ID)) || !strings.Contains(string(a.raw), `"support":"`+ref+`"`) {
			s.Errorf("the mail has %q, the answer is %s", ref, a.raw)
		}
		rows, err := s.replicas[0].Log().Referenced(t.Context(), ref)
		if err != nil || len(rows) != 1 || rows[0].ID.String() != a.Send.ID {
			s.Errorf("%q finds %v, %v", ref, rows, err)
		}
		for _, path := range []string{"/v1/verifications/" + ref, "/v1/verifications/" + strings.ToLower(ref)} {
			for _, key := range []string{apiKey, publicKey} {
				if got := s.do(0, http.MethodGet, path, "", as(key)); got.status != http.StatusNotFound {
					s.Errorf("%s: %d %s", path, got.status, got.raw)
				}
			}
		}
	})
}
