package api

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/labstack/echo/v4"
	"pgregory.net/rapid"

	"sendcode/internal/audit"
	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/quota"
)

func decisions(t *rapid.T) quota.Decision {
	d := quota.Decision{At: time.UnixMicro(rapid.Int64Range(1e15, 2e15).Draw(t, "at")).UTC(), Clock: "redis"}
	for range rapid.IntRange(1, 5).Draw(t, "rules") {
		w := time.Duration(rapid.IntRange(1, 2_678_400).Draw(t, "window")) * time.Second
		s := quota.State{Rule: quota.Rule{
			Name: rapid.StringMatching(`[a-z][a-z0-9_-]{0,31}`).Draw(t, "name"), Limit: rapid.IntRange(1, 1000).Draw(t, "limit"), Window: w,
		}}
		s.Used = rapid.IntRange(0, 2*s.Limit).Draw(t, "used")
		if s.Used > 0 {
			s.ResetAfter = time.Duration(rapid.Int64Range(1, w.Microseconds()).Draw(t, "reset")) * time.Microsecond
		}
		if s.Used >= s.Limit {
			s.RetryAfter = time.Duration(rapid.Int64Range(1, w.Microseconds()).Draw(t, "retry")) * time.Microsecond
		}
		d.Rules = append(d.Rules, s)
	}
	return d
}

// Header, body and decision tell one truth: no wait is earlier than any blocking rule's, none is 0 while blocked
// (API-2, API-3).
func TestOneTruthAboutWaiting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := decisions(t)
		h := http.Header{}
		if err := setRateLimit(h, d); err != nil {
			t.Fatal(err)
		}
		policies, err := httpsfv.UnmarshalList(h.Values("RateLimit-Policy"))
		if err != nil || len(policies) != len(d.Rules) {
			t.Fatalf("%q: %v", h.Get("RateLimit-Policy"), err)
		}
		limits, err := httpsfv.UnmarshalList(h.Values("RateLimit"))
		if err != nil || len(limits) != 1 {
			t.Fatalf("%q: %v", h.Get("RateLimit"), err)
		}
		q := quotaOf(d)
		left, _ := limits[0].(httpsfv.Item).Params.Get("r")
		wait, _ := limits[0].(httpsfv.Item).Params.Get("t")
		if d.Allowed() {
			if q.RetryAfter != 0 || q.BlockedBy != "" || !q.Allowed || left.(int64) == 0 {
				t.Fatalf("allowed, but %+v %v", q, h)
			}
			return
		}
		p := quotaProblem(verification.Answer{Quota: d})
		if q.Allowed || left.(int64) != 0 || wait.(int64) != int64(q.RetryAfter) || p.Header.Get("Retry-After") != wait0(q.RetryAfter) {
			t.Fatalf("blocked, but %+v %v %v", q, h, p.Header)
		}
		for _, s := range d.Rules {
			if s.RetryAfter > time.Duration(q.RetryAfter)*time.Second || s.RetryAfter > time.Duration(p.Extra["retry_after_ms"].(int64))*time.Millisecond {
				t.Fatalf("told %d s, but %s blocks for %v", q.RetryAfter, s.Name, s.RetryAfter)
			}
		}
		at, err := time.Parse(time.RFC3339, q.RetryAt)
		if err != nil || at.Before(d.At.Add(d.RetryAfter())) {
			t.Fatalf("retry_at %s is before %v + %v", q.RetryAt, d.At, d.RetryAfter())
		}
	})
}

func wait0(n int) string { b, _ := json.Marshal(n); return string(b) }

func TestHeadersOfTheDefaultPolicy(t *testing.T) {
	d := quota.Decision{Rules: []quota.State{
		{Rule: quota.Rule{Name: "minute", Limit: 1, Window: time.Minute}, Used: 0},
		{Rule: quota.Rule{Name: "hour", Limit: 5, Window: time.Hour}, Used: 4, ResetAfter: 1500 * time.Millisecond},
	}}
	h := http.Header{}
	if err := setRateLimit(h, d); err != nil {
		t.Fatal(err)
	}
	if got := h.Get("RateLimit"); got != `"minute";r=1;t=0` {
		t.Errorf("RateLimit: %s", got)
	}
	if err := setRateLimit(http.Header{}, quota.Decision{}); err != nil {
		t.Error(err)
	}
}

func TestKeys(t *testing.T) {
	keys := Keys{
		{App: "shop", Kind: verification.Secret, SHA256: sha256.Sum256([]byte("sk_one"))},
		{App: "shop", Kind: verification.Browser, SHA256: sha256.Sum256([]byte("pk_two"))},
	}
	for presented, app := range map[string]string{"sk_one": "shop", "pk_two": "shop", "sk_on": "", "": "", "sk_one ": ""} {
		if k, ok := keys.find(presented); ok != (app != "") || k.App != app {
			t.Errorf("find(%q) = %+v, %v", presented, k, ok)
		}
	}
}

func TestBrowsersSeeNoReasons(t *testing.T) {
	a := verification.Answer{View: verification.View{ID: "v", Send: verification.SendView{Status: audit.Failed, Reason: "rejected"}}}
	if got := verificationOf(a, verification.Browser); got.Send.Reason != "" || got.Send.Status != audit.Failed {
		t.Errorf("browser: %+v", got.Send)
	}
	if got := verificationOf(a, verification.Secret); got.Send.Reason != "rejected" {
		t.Errorf("back end: %+v", got.Send)
	}
}

func TestWhatAPublicKeyMayNotDo(t *testing.T) {
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		var status = 500
		switch p := err.(type) {
		case *server.Problem:
			status = p.Kind.Status
		case *verification.InvalidError:
			status = 422
		}
		_ = c.NoContent(status)
	}
	New(nil, Keys{{App: "shop", Kind: verification.Browser, SHA256: sha256.Sum256([]byte("pk_x"))}}, nil).Register(e)
	for path, c := range map[string]struct {
		body   string
		status int
	}{
		"/v1/verifications/check": {`{"channel":"email","to":"a@example.com","code":"123456"}`, 403},
		"/v1/quota":               {`{"channel":"email","to":"a@example.com"}`, 403},
		"/v1/verifications":       {`{"channel":"email","to":"a@example.com","client_ip":"192.0.2.1"}`, 422},
	} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(c.body))
		r.Header.Set("Authorization", "Bearer pk_x")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
