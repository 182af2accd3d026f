package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/fault"
	"sendcode/internal/hooks"
	"sendcode/internal/server"
	"sendcode/internal/servertest"
	"sendcode/internal/standardwebhooks"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// stubCodes answers sends in turn, and notes what is asked.
type stubCodes struct {
	answers []func() (verification.Answer, error)
	asked   []string
}

func (c *stubCodes) Send(_ context.Context, ask verification.Request) (verification.Answer, error) {
	c.asked = append(c.asked, "send "+ask.To)
	answer := c.answers[0]
	c.answers = c.answers[1:]
	return answer()
}

func (c *stubCodes) Quota(context.Context, verification.Caller, string, string, string) (verification.Answer, error) {
	return verification.Answer{}, nil // no rule: all is allowed
}

func (c *stubCodes) Cancel(_ context.Context, _ verification.Caller, id string) (verification.Answer, error) {
	c.asked = append(c.asked, "cancel "+id)
	return verification.Answer{}, nil
}

func (c *stubCodes) post(t *testing.T, body string) string {
	t.Helper()
	secrets, logger := [][]byte{[]byte("a secret of a hook, long enough")},
		slog.New(slog.NewTextHandler(io.Discard, nil))
	e := server.New(server.Config{Logger: logger})
	NewHooks([]hooks.Hook{{Name: "auth", App: "shop", Server: hooks.SupabaseEmail, Secrets: secrets}}, c,
		logger).Register(e)
	r := httptest.NewRequest(http.MethodPost, "/v1/hooks/auth", strings.NewReader(body))
	r.Header = http.Header{"Webhook-Id": {"1"}, "Webhook-Timestamp": {strconv.FormatInt(time.Now().Unix(), 10)},
		"Webhook-Signature": {standardwebhooks.Sign(secrets, "1", time.Now(), []byte(body))}}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

func admitted(id string) func() (verification.Answer, error) {
	return func() (verification.Answer, error) {
		return verification.Answer{Admitted: true, View: verification.View{ID: id}}, nil
	}
}

func busy() (verification.Answer, error) { return verification.Answer{}, verification.ErrKeyInProgress }

const change = `{"user":{"email":"a@example.com","new_email":"b@example.com"},"email_data":{"email_action_type":"email_change","token":"123456","token_new":"654321"}}`

// A repetition that comes while the first request is under way has that one's answer, or says that
// nothing is known in time.
func TestARepetitionWaitsForTheFirst(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		c := &stubCodes{answers: []func() (verification.Answer, error){busy, busy, admitted("v1"), admitted("v2")}}
		if got := c.post(t, change); got != "200 {}" {
			t.Error(got)
		}
		began := time.Now()
		c = &stubCodes{}
		for range 100 {
			c.answers = append(c.answers, busy)
		}
		if got := c.post(t, change); !strings.HasPrefix(got, `200 {"error":{"http_code":409,"message":"We are still`) ||
			time.Since(began) > 4*time.Second {
			t.Errorf("%s after %v", got, time.Since(began))
		}
	})
}

// If the second of two codes is refused after all, or fails, the first is canceled, since the server
// forgets both.
func TestTheFirstOfTwoCodesIsCanceled(t *testing.T) {
	refused := func() (verification.Answer, error) {
		return verification.Answer{Quota: quota.Decision{Rules: []quota.State{{Rule: quota.Rule{Name: "minute",
			Scope: quota.Recipient, Limit: 1, Window: time.Minute},
			Used: 1, RetryAfter: 42 * time.Second, ResetAfter: 42 * time.Second}}}}, nil
	}
	failed := func() (verification.Answer, error) { return verification.Answer{}, fault.Unavailable }
	for answer, second := range map[string]func() (verification.Answer, error){
		`{"error":{"http_code":429,"message":"The next code can be sent in 42 s."}}`: refused,
		`{"error":{"http_code":503,"message":"` + server.Unavailable.Say + `"}}`:     failed,
	} {
		c := &stubCodes{answers: []func() (verification.Answer, error){admitted("v1"), second}}
		servertest.Same(t, "answer", c.post(t, change), "200 "+answer)
		servertest.Same(t, answer, strings.Join(c.asked, ", "), "send a@example.com, send b@example.com, cancel v1")
	}
}

// Each message of each hook has a key of its own: what one hook sent is no repetition for another.
func TestCodeRequestsHaveKeysOfTheirOwn(t *testing.T) {
	h := NewHooks(nil, &stubCodes{}, nil)
	body, keys := []byte(change), map[string]bool{}
	for _, name := range []string{"auth", "other"} {
		hook := hooks.Hook{Name: name, App: "shop", Server: hooks.SupabaseEmail}
		r, err := hook.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		for _, ask := range h.codeRequests(t.Context(), hook, r) {
			keys[ask.Key] = true
		}
	}
	servertest.Same(t, "keys of two messages of two hooks", len(keys), 4)
}
