package clients

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// From the file to the mail: one quota and one history for a mailbox, and every address for itself.
func TestFolding(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	s.Policy(apptest.TwoAnHour).Write("policies:\n  default:\n" + apptest.TwoAnHour + "folding: [{domain: gmail.com, plus_tags: true, dots: true}]\n")
	s.Start(1)
	const tagged, dotted, plain = "ana+one@gmail.com", "a.n.a@gmail.com", "ana@gmail.com"
	a, b := s.Ask(0, tagged), s.Ask(0, dotted)
	if a.StatusCode != http.StatusAccepted || b.StatusCode != http.StatusAccepted || a.ID == b.ID {
		s.Fatalf("%d, %d, one verification: %t", a.StatusCode, b.StatusCode, a.ID == b.ID)
	}
	if c := s.Ask(0, plain); c.StatusCode != http.StatusTooManyRequests || c.BlockedBy != "hourly" {
		s.Errorf("a third spelling: %d %s", c.StatusCode, c.Raw)
	}
	code := s.CodeIn(s.AwaitMail(tagged, 1)[0])
	s.AwaitMail(dotted, 1)
	named := func(to string) apptest.Answer {
		return s.Do(0, http.MethodPost, "/v1/verifications/check", `{"channel":"email","to":"`+to+`","code":"`+code+`"}`)
	}
	if c := named(plain); c.StatusCode != http.StatusNotFound {
		s.Errorf("a spelling without a code: %d", c.StatusCode)
	}
	if c := named(dotted); c.Valid || c.ID != b.ID && c.ID != "" {
		s.Errorf("the code of another spelling: %s", c.Raw)
	}
	if c := named(tagged); !c.Valid || c.ID != a.ID {
		s.Errorf("its own: %s", c.Raw)
	}
	asAdmin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+apptest.Token) }
	found := func() (n int) {
		list := s.Do(0, http.MethodPost, "/v1/admin/search", `{"channel":"email","to":"An.a+new@gmail.com"}`, asAdmin)
		var body struct{ Sends []json.RawMessage }
		if err := json.Unmarshal(list.Raw, &body); err != nil {
			s.Fatal(err)
		}
		return len(body.Sends)
	}
	s.Await("both sends and the refusal in one history", func() bool { return found() == 3 })
	if strings.Contains(s.Printed.String(), "gmail.com\"") {
		s.Error("an address was logged")
	}
}
