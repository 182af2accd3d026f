package operators

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/app/apptest"
	"sendcode/internal/store"
)

// One short reference is in the mail, in the answers and on the page; it finds the send, and gives no hold over anything.
func TestSupportReference(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Tenants().Start(1)
		a := s.Do(0, "POST", "/v1/verifications", `{"channel":"email","to":"`+apptest.Ana+`"}`, apptest.As(apptest.PublicKey))
		mail := s.AwaitMail(apptest.Ana, 1)[0]
		ref := regexp.MustCompile(`S-[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(mail.Text)
		if ref == "" || ref != store.SupportReference(uuid.MustParse(a.Send.ID)) || !strings.Contains(string(a.Raw), `"support":"`+ref+`"`) {
			s.Errorf("the mail has %q, the answer is %s", ref, a.Raw)
		}
		rows, err := s.Replicas[0].Log().Referenced(t.Context(), ref)
		if err != nil || len(rows) != 1 || rows[0].ID.String() != a.Send.ID {
			s.Errorf("%q finds %v, %v", ref, rows, err)
		}
		for _, path := range []string{"/v1/verifications/" + ref, "/v1/verifications/" + strings.ToLower(ref)} {
			for _, key := range []string{apptest.APIKey, apptest.PublicKey} {
				if got := s.Do(0, http.MethodGet, path, "", apptest.As(key)); got.StatusCode != http.StatusNotFound {
					s.Errorf("%s: %d %s", path, got.StatusCode, got.Raw)
				}
			}
		}
	})
}
