package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// From the file to the mail: one quota and one history for a mailbox, and every address for itself.
func TestFolding(t *testing.T) {
	onEach(t, func(s *stack) {
		s.policy(twoAnHour).write("policies:\n  default:\n" + twoAnHour + "folding: [{domain: gmail.com, plus_tags: true, dots: true}]\n")
		s.start(1)
		const tagged, dotted, plain = "ana+one@gmail.com", "a.n.a@gmail.com", "ana@gmail.com"
		a, b := s.ask(0, tagged), s.ask(0, dotted)
		if a.status != http.StatusAccepted || b.status != http.StatusAccepted || a.ID == b.ID {
			s.Fatalf("%d, %d, one verification: %t", a.status, b.status, a.ID == b.ID)
		}
		if c := s.ask(0, plain); c.status != http.StatusTooManyRequests || c.BlockedBy != "hourly" {
			s.Errorf("a third spelling: %d %s", c.status, c.raw)
		}
		code := s.codeIn(s.awaitMail(tagged, 1)[0])
		s.awaitMail(dotted, 1)
		named := func(to string) answer {
			return s.do(0, http.MethodPost, "/v1/verifications/check", `{"channel":"email","to":"`+to+`","code":"`+code+`"}`)
		}
		if c := named(plain); c.status != http.StatusNotFound {
			s.Errorf("a spelling without a code: %d", c.status)
		}
		if c := named(dotted); c.Valid || c.ID != b.ID && c.ID != "" {
			s.Errorf("the code of another spelling: %s", c.raw)
		}
		if c := named(tagged); !c.Valid || c.ID != a.ID {
			s.Errorf("its own: %s", c.raw)
		}
		asAdmin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
		found := func() (n int) {
			list := s.do(0, http.MethodPost, "/v1/admin/search", `{"channel":"email","to":"An.a+new@gmail.com"}`, asAdmin)
			var body struct{ Sends []json.RawMessage }
			if err := json.Unmarshal(list.raw, &body); err != nil {
				s.Fatal(err)
			}
			return len(body.Sends)
		}
		s.await("both sends and the refusal in one history", func() bool { return found() == 3 })
		if strings.Contains(s.printed.String(), "gmail.com\"") {
			s.Error("an address was logged")
		}
	})
}
