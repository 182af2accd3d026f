package app

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
)

func withKey(key string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

func (s *stack) askKeyed(i int, to, key string) answer {
	s.Helper()
	return s.do(i, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en"}`, to), withKey(key))
}

func TestIdempotencyKey(t *testing.T) {
	onEach(t, func(s *stack) {
		s.start(1)
		first := s.askKeyed(0, ana, `"the first intent"`)
		s.awaitMail(ana, 1)
		again := s.askKeyed(0, ana, `"the first intent"`)
		if again.status != 202 || again.ID != first.ID || again.Send != first.Send || again.header.Get("Location") != first.header.Get("Location") {
			s.Errorf("first %s\nthen %s", first.raw, again.raw)
		}
		if first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
			s.Error("which of them was the replay is not told")
		}
		if wait := again.Quota.RetryAfter; wait < 1 || wait > first.Quota.RetryAfter || again.header.Get("RateLimit") == "" {
			s.Errorf("waits: first %d s, then %d s", first.Quota.RetryAfter, wait)
		}
		for what, c := range map[string]struct {
			to, key string
			status  int
			kind    string
		}{
			"another recipient under the same key": {"bea@example.com", `"the first intent"`, 422, "/problems/idempotency-key-reused"},
			"a key that is none":                   {"bea@example.com", `"`, 400, "/problems/bad-request"},
			"the next intent, too early":           {ana, "the-next-intent-of-them", 429, "/problems/quota-exceeded"},
		} {
			if a := s.askKeyed(0, c.to, c.key); a.status != c.status || a.Type != c.kind {
				s.Errorf("%s: %d %s", what, a.status, a.raw)
			}
		}
		if a := s.askKeyed(0, "bea@example.com", "the-next-intent-of-them"); a.status != 202 {
			s.Errorf("a refusal kept its key: %d %s", a.status, a.raw)
		}
		s.awaitMail("bea@example.com", 1)
		if n := len(s.awaitMail(ana, 1)); n != 1 {
			s.Errorf("%d mails", n)
		}
	})
}

// A hundred copies of one request at once, over two replicas, one of which is killed under them: one send.
func TestOneKeyOverTwoReplicas(t *testing.T) {
	binary := build(t)
	s := onRealParts(t)
	victim, survivor := s.spawn(binary), s.spawn(binary)
	ask := func(p *process) (status int, body string) {
		req, err := http.NewRequest(http.MethodPost, p.base+"/v1/verifications", strings.NewReader(`{"channel":"email","to":"`+ana+`"}`))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		req.Header.Set("Authorization", "Bearer "+s.key)
		req.Header.Set("Content-Type", "application/json")
		withKey("once-and-no-more-than-that")(req)
		resp, err := client.Do(req)
		if err != nil {
			return 0, "" // it was killed
		}
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(raw)
	}
	var all sync.WaitGroup
	first := make(chan struct{}, 100)
	for i := range 100 {
		all.Go(func() {
			p := survivor
			if i%2 == 0 {
				p = victim
			}
			status, body := ask(p)
			first <- struct{}{}
			if status != 0 && status != http.StatusAccepted && status != http.StatusConflict && status != http.StatusServiceUnavailable {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	<-first
	victim.kill()
	all.Wait()
	s.await("the key's send", func() bool {
		status, _ := ask(survivor)
		return status == http.StatusAccepted
	})
	s.awaitMail(ana, 1)
	s.start(1)
	s.await("an outcome", func() bool {
		return strings.Contains(string(s.sends().raw), `"status":"sent"`)
	})
	ids := map[string]bool{}
	for _, m := range s.awaitMail(ana, 1) {
		ids[m.id] = true
	}
	if len(ids) != 1 || strings.Count(string(s.sends().raw), `"verification_id"`) != 1 {
		t.Errorf("Message-IDs %v, log %s", ids, s.sends().raw)
	}
}

// The two clicks of a double click reach two replicas: both pages show the one code that was sent.
func TestDoubleClickOverTwoReplicas(t *testing.T) {
	s := onRealParts(t).start(2)
	page := s.do(0, http.MethodGet, "/", "").raw
	intent := regexp.MustCompile(`name="intent" value="([^"]+)"`).FindSubmatch(page)
	if intent == nil {
		t.Fatalf("no form: %s", page)
	}
	form := url.Values{"act": {"send"}, "intent": {string(intent[1])}, "to": {ana}}.Encode()
	shown := make([]string, 8)
	var all sync.WaitGroup
	for i := range shown {
		all.Go(func() {
			cookie := s.submit(i%2, form)
			shown[i] = string(s.do(i%2, http.MethodGet, "/", "", func(r *http.Request) { r.Header.Set("Cookie", cookie) }).raw)
		})
	}
	all.Wait()
	for _, page := range shown {
		if !strings.Contains(page, `data-kind="code"`) || !strings.Contains(page, anaMasked) && !strings.Contains(page, ana) {
			t.Errorf("%s", page)
		}
	}
	if n := strings.Count(string(s.sends().raw), `"verification_id"`); n != 1 {
		t.Errorf("%d rows: %s", n, s.sends().raw)
	}
	s.awaitMail(ana, 1)
}

// submit posts the page's form as a browser does, and returns the cookie that comes back.
func (s *stack) submit(i int, form string) string {
	s.Helper()
	req, err := http.NewRequest(http.MethodPost, s.replicas[i].base+"/", strings.NewReader(form))
	if err != nil {
		s.Error(err)
		return ""
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Transport.RoundTrip(req) // no redirect is followed
	if err != nil {
		s.Error(err)
		return ""
	}
	defer resp.Body.Close()
	cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	return cookie
}

// sends is the log as the administrator reads it.
func (s *stack) sends() answer {
	s.Helper()
	return s.do(0, http.MethodGet, "/v1/admin/sends", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
}
