package clients

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/run/app/apptest"
)

// The service follows the settings on recipients. Two spellings of a mailbox share a quota. A test
// recipient has a known code and no quota. Blocked and disposable addresses get no code.
func TestRecipientSettingsAreFollowed(t *testing.T) {
	t.Parallel()
	const reviewer = "reviewer@example.com"
	s := apptest.Embedded(t)
	list := filepath.Join(t.TempDir(), "disposable.txt")
	apptest.Must(t, os.WriteFile(list, []byte("short.example\n"), 0o600))
	s.Policy(`    - {name: one, scope: recipient, limit: 1, window: 300s}
folding: {exact.example: exact}
test_recipients: [{to: reviewer@example.com, code: "424242", expires: 2099-01-01}]
stop: [{to: "*@bad.example", reason: abuse}]
disposable_domains: ` + list + "\n").Start(1)
	if !s.Logged("admitted with its fixed code") || s.Logged("reviewer@") {
		t.Error("no warning at the start, or one that shows the address")
	}
	one, other, known := s.Ask(0, "ana+one@gmail.com"), s.Ask(0, "a.n.a@gmail.com"), s.Ask(0, reviewer)
	s.Is("a spelling", one, http.StatusAccepted)
	s.Is("another one", other, http.StatusTooManyRequests, other.BlockedBy == "one")
	s.Is("Gmail's other domain", s.Ask(0, "an.a@googlemail.com"), http.StatusTooManyRequests)
	s.Is("a tag", s.Ask(0, "ben+1@example.com"), http.StatusAccepted)
	s.Is("another tag", s.Ask(0, "ben+2@example.com"), http.StatusTooManyRequests)
	s.Is("where tags count", s.Ask(0, "ben+1@exact.example"), http.StatusAccepted)
	s.Is("another one there", s.Ask(0, "ben+2@exact.example"), http.StatusAccepted)
	s.Is("a test recipient", known, http.StatusAccepted, strings.Contains(string(known.Raw), `"test":true`))
	s.Is("it again", s.Ask(0, reviewer), http.StatusAccepted)
	s.Approves(0, known.ID, "424242")
	blocked := s.Post("/v1/verifications", `{"channel":"email","to":"a@bad.example"}`, apptest.Patiently)
	s.Is("a blocked one", blocked, http.StatusBadGateway, s.Verification(blocked.ID).Send.Reason == "blocked")
	short := s.Ask(0, "a@short.example")
	s.Is("a disposable domain", short, 422, short.Field == "to", strings.Contains(string(short.Raw), "disposable"))
}
