package clients

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sendcode/internal/app/apptest"
)

// A hundred copies of one request at once, over two replicas, one of which is killed under them: one send.
func TestOneKeyOverTwoReplicas(t *testing.T) {
	binary := apptest.Build(t)
	s := apptest.OnRealParts(t)
	victim, survivor := s.Spawn(binary), s.Spawn(binary)
	ask := func(p *apptest.Process) (status int, body string) {
		req, err := http.NewRequest(http.MethodPost, p.Base+"/v1/verifications", strings.NewReader(`{"channel":"email","to":"`+apptest.Ana+`"}`))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		req.Header.Set("Authorization", "Bearer "+s.Key)
		req.Header.Set("Content-Type", "application/json")
		apptest.WithKey("once-and-no-more-than-that")(req)
		resp, err := apptest.Client.Do(req)
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
	victim.Kill()
	all.Wait()
	s.Await("the key's send", func() bool {
		status, _ := ask(survivor)
		return status == http.StatusAccepted
	})
	s.AwaitMail(apptest.Ana, 1)
	s.Start(1)
	s.Await("an outcome", func() bool {
		return strings.Contains(string(sends(s).Raw), `"status":"sent"`)
	})
	ids := map[string]bool{}
	for _, m := range s.AwaitMail(apptest.Ana, 1) {
		ids[m.ID] = true
	}
	if len(ids) != 1 || strings.Count(string(sends(s).Raw), `"verification_id"`) != 1 {
		t.Errorf("Message-IDs %v, log %s", ids, sends(s).Raw)
	}
}

// The two clicks of a double click reach two replicas: both pages show the one code that was sent.
func TestDoubleClickOverTwoReplicas(t *testing.T) {
	s := apptest.OnRealParts(t).Start(2)
	page := s.Do(0, http.MethodGet, "/", "").Raw
	intent := regexp.MustCompile(`name="intent" value="([^"]+)"`).FindSubmatch(page)
	if intent == nil {
		t.Fatalf("no form: %s", page)
	}
	form := url.Values{"act": {"send"}, "intent": {string(intent[1])}, "to": {apptest.Ana}}.Encode()
	shown := make([]string, 8)
	var all sync.WaitGroup
	for i := range shown {
		all.Go(func() {
			cookie := submit(s, i%2, form)
			shown[i] = string(s.Do(i%2, http.MethodGet, "/", "", func(r *http.Request) { r.Header.Set("Cookie", cookie) }).Raw)
		})
	}
	all.Wait()
	for _, page := range shown {
		if !strings.Contains(page, `data-kind="code"`) || !strings.Contains(page, apptest.AnaMasked) && !strings.Contains(page, apptest.Ana) {
			t.Errorf("%s", page)
		}
	}
	if n := strings.Count(string(sends(s).Raw), `"verification_id"`); n != 1 {
		t.Errorf("%d rows: %s", n, sends(s).Raw)
	}
	s.AwaitMail(apptest.Ana, 1)
}

// submit posts the page's form as a browser does, and returns the cookie that comes back.
func submit(s *apptest.Stack, i int, form string) string {
	s.Helper()
	req, err := http.NewRequest(http.MethodPost, s.Replicas[i].Base+"/", strings.NewReader(form))
	if err != nil {
		s.Error(err)
		return ""
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := apptest.Client.Transport.RoundTrip(req) // no redirect is followed
	if err != nil {
		s.Error(err)
		return ""
	}
	defer resp.Body.Close()
	cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	return cookie
}

// sends is the log as the administrator reads it.
func sends(s *apptest.Stack) apptest.Answer {
	s.Helper()
	return s.Do(0, http.MethodGet, "/v1/admin/sends", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+apptest.Token) })
}
