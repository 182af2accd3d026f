package drill

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"sendcode/internal/recipient"
)

// answer is a response to an app.
type answer struct {
	status    int
	raw       []byte
	ID        string
	ExpiresAt time.Time `json:"expires_at"`
	Valid     bool
	BlockedBy string `json:"blocked_by"`
	Send      struct{ ID, Status, Reason, Support string }
	Quota     struct {
		RetryAt time.Time `json:"retry_at"`
	}
}

// post asks the service as an app does: again, where it is busy.
func (s *street) post(path, key string, body map[string]any, header ...string) (a answer) {
	s.Helper()
	text, err := json.Marshal(body)
	s.must(err)
	for range 10 {
		req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.base+path, bytes.NewReader(text))
		s.must(err)
		req.Header.Set("Content-Type", "application/json")
		if user, secret, basic := strings.Cut(key, ":"); basic {
			req.SetBasicAuth(user, secret)
		} else {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		for n := 0; n+1 < len(header); n += 2 {
			req.Header.Set(header[n], header[n+1])
		}
		resp, err := client.Do(req)
		s.must(err)
		a = answer{status: resp.StatusCode}
		a.raw, err = io.ReadAll(resp.Body)
		s.must(err)
		_ = resp.Body.Close()
		if a.status != http.StatusServiceUnavailable {
			break
		}
		<-time.After(time.Second)
	}
	if len(a.raw) > 0 {
		s.must(json.Unmarshal(a.raw, &a))
	}
	return a
}

// request asks for a code; change adds to the body.
func (s *street) request(i *incident, purpose string, change ...func(map[string]any)) answer {
	s.Helper()
	body := map[string]any{"channel": string(i.channel), "to": i.to, "purpose": purpose, "locale": i.locale}
	for _, c := range change {
		c(body)
	}
	return s.post("/v1/verifications", keyOf(i.app), body, "Prefer", "wait=20")
}

// ask requests a code for a person, and notes what they and their app learn of it.
func (s *street) ask(i *incident, purpose string, change ...func(map[string]any)) answer {
	s.Helper()
	began := time.Now()
	a := s.request(i, purpose, change...)
	switch a.status {
	case http.StatusAccepted, http.StatusBadGateway: // Prefer: wait says of a failure at once
		i.happened("asked", began)
		i.happened("ended", began)
		i.support = a.Send.Support
		if !a.ExpiresAt.IsZero() {
			i.knows("until", a.ExpiresAt)
		}
	default:
		s.Fatalf("%s: %d %s", i.kind.name, a.status, a.raw)
	}
	return a
}

// sent is ask for a code that is sent.
func (s *street) sent(i *incident, purpose string, change ...func(map[string]any)) answer {
	s.Helper()
	a := s.ask(i, purpose, change...)
	if a.Send.Status != "sent" {
		s.Fatalf("%s: %s", i.kind.name, a.raw)
	}
	return a
}

// refused makes a request that the rule refuses.
func (s *street) refused(i *incident, purpose, rule string, change ...func(map[string]any)) {
	s.Helper()
	began := time.Now()
	a := s.request(i, purpose, change...)
	if a.status != http.StatusTooManyRequests || a.BlockedBy != rule {
		s.Fatalf("%s: %d %s", i.kind.name, a.status, a.raw)
	}
	i.happened("refused", began)
	i.knows("free", a.Quota.RetryAt)
	s.await(i, "the refusal", func(rows []row) bool { return len(rows) > 0 && rows[0].BlockedBy == rule })
}

// others makes requests for other people.
func (s *street) others(i *incident, n int, purpose string, change ...func(map[string]any)) {
	s.Helper()
	for range n {
		other := newIncident(i.kind, i.rand, i.rand.IntN(10000))
		other.app, other.to = i.app, "someone."+other.to
		if a := s.request(other, purpose, change...); a.status != http.StatusAccepted && a.status != http.StatusTooManyRequests {
			s.Fatalf("%s: another person: %d %s", i.kind.name, a.status, a.raw)
		}
	}
}

var codeLine = regexp.MustCompile(`(?m)^\s*(\d{6})\s*\r?$`)

// codeOf reads the newest mail to a person.
func (s *street) codeOf(i *incident) string {
	s.Helper()
	code := ""
	for _, m := range s.mails.Messages() {
		if len(m.To) == 1 && m.To[0] == i.to {
			if found := codeLine.FindSubmatch(m.Data); found != nil {
				code = string(found[1])
			}
		}
	}
	if code == "" {
		s.Fatalf("%s: no mail with a code", i.kind.name)
	}
	return code
}

func (s *street) check(i *incident, id, code string) bool {
	s.Helper()
	a := s.post("/v1/verifications/"+id+"/check", keyOf(i.app), map[string]any{"code": code})
	if a.status != http.StatusOK {
		s.Fatalf("%s: %d %s", i.kind.name, a.status, a.raw)
	}
	return a.Valid
}

// tells sends an event of the mail provider about a mail that it had accepted.
func (s *street) tells(i *incident, send, kind, detail string) {
	s.Helper()
	began := time.Now()
	a := s.post("/v1/events/post", hookUser+":"+hookSecret,
		map[string]any{"message": "<" + send + "@localhost>", "type": kind, "to": i.to, "detail": detail})
	if a.status != http.StatusNoContent {
		s.Fatalf("%s: %d %s", i.kind.name, a.status, a.raw)
	}
	i.happened("told", began)
}

// erase erases the recipient, as an administrator did earlier.
func (s *street) erase(i *incident) {
	s.Helper()
	if a := s.post("/v1/admin/erase", adminToken, map[string]any{"channel": string(recipient.Email), "to": i.to, "purpose": "order",
		"reason": "ticket 7"}); a.status != http.StatusNoContent {
		s.Fatalf("%d %s", a.status, a.raw)
	}
}
