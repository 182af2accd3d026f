package drill

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/recipient"
)

// post asks the service as an app does: again, where it is busy.
func (s *environment) post(path string, body map[string]any, change ...func(*http.Request)) apptest.Answer {
	s.Helper()
	text, err := json.Marshal(body)
	s.must(err)
	return s.Post(path, string(text), change...)
}

// by is a request of an app.
func by(app string) func(*http.Request) { return apptest.As(keyOf(app)) }

// request asks for a code; change adds to the body.
func (s *environment) request(i *incident, purpose string, change ...func(map[string]any)) apptest.Answer {
	s.Helper()
	body := map[string]any{"channel": string(i.channel), "to": i.to, "purpose": purpose, "locale": i.locale}
	for _, c := range change {
		c(body)
	}
	return s.post("/v1/verifications", body, by(i.app), apptest.Patiently)
}

// ask requests a code for a person, and notes what they and their app learn of it.
func (s *environment) ask(i *incident, purpose string, change ...func(map[string]any)) apptest.Answer {
	s.Helper()
	began := time.Now()
	a := s.request(i, purpose, change...)
	switch a.StatusCode {
	case http.StatusAccepted, http.StatusBadGateway: // Prefer: wait says of a failure at once
		i.happened("asked", began)
		i.happened("ended", began)
		i.support = a.Send.Support
		if !a.ExpiresAt.IsZero() {
			i.knows("until", a.ExpiresAt)
		}
	default:
		s.Fatalf("%s: %d %s", i.kind.name, a.StatusCode, a.Raw)
	}
	return a
}

// sent is ask for a code that is sent.
func (s *environment) sent(i *incident, purpose string, change ...func(map[string]any)) apptest.Answer {
	s.Helper()
	a := s.ask(i, purpose, change...)
	if a.Send.Status != "sent" {
		s.Fatalf("%s: %s", i.kind.name, a.Raw)
	}
	return a
}

// refused makes a request that the rule refuses.
func (s *environment) refused(i *incident, purpose, rule string, change ...func(map[string]any)) {
	s.Helper()
	began := time.Now()
	a := s.request(i, purpose, change...)
	s.Is(i.kind.name, a, http.StatusTooManyRequests, a.BlockedBy == rule)
	i.happened("refused", began)
	i.knows("free", a.Quota.RetryAt)
	s.await(i, "the refusal", func(rows []row) bool { return len(rows) > 0 && rows[0].BlockedBy == rule })
}

// others makes requests for other people.
func (s *environment) others(i *incident, n int, purpose string, change ...func(map[string]any)) {
	s.Helper()
	for range n {
		other := newIncident(i.kind, i.rand, i.rand.IntN(10000))
		other.app, other.to = i.app, "someone."+other.to
		if a := s.request(other, purpose, change...); a.StatusCode != http.StatusAccepted &&
			a.StatusCode != http.StatusTooManyRequests {
			s.Fatalf("%s: another person: %d %s", i.kind.name, a.StatusCode, a.Raw)
		}
	}
}

// codeOf reads the newest mail to a person.
func (s *environment) codeOf(i *incident) string {
	s.Helper()
	mails := s.AwaitMail(i.to, 1)
	return s.CodeIn(mails[len(mails)-1])
}

func (s *environment) check(i *incident, id, code string) bool {
	s.Helper()
	a := s.post("/v1/verifications/"+id+"/check", map[string]any{"code": code}, by(i.app))
	s.Is(i.kind.name, a, http.StatusOK)
	return a.Valid
}

// tells sends an event of the mail provider about a mail that it had accepted.
func (s *environment) tells(i *incident, send, kind, detail string) {
	s.Helper()
	began := time.Now()
	a := s.post("/v1/events/post",
		map[string]any{"message": "<" + send + "@localhost>", "type": kind, "to": i.to, "detail": detail},
		func(r *http.Request) { r.SetBasicAuth(hookUser, hookSecret) })
	s.Is(i.kind.name, a, http.StatusNoContent)
	i.happened("told", began)
}

// reports sends the carrier's report about the message to a person.
func (s *environment) reports(i *incident, status string) {
	s.Helper()
	for _, form := range s.carrier.Asked() {
		if form.Get("to") == i.to {
			s.Is("the receipt", s.Get(strings.TrimPrefix(form.Get("cb"), "https://codes.example.com")+"&st="+status),
				http.StatusNoContent)
		}
	}
}

// erase erases the recipient, as an administrator did earlier.
func (s *environment) erase(i *incident) {
	s.Helper()
	body := map[string]any{"channel": string(recipient.Email), "to": i.to, "purpose": "order", "reason": "ticket 7"}
	s.Is(i.kind.name, s.post("/v1/admin/erase", body, apptest.AsAdmin), http.StatusNoContent)
}
