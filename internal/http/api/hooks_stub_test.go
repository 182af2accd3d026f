package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/http/authhooks"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// ending describes how a send ends: with an error, a refusal, or a message.
type ending struct {
	before, after time.Duration // how long Send takes before and after it calls MaySend, even if the context ends
	err           error
	refused       quota.Decision
	reason        string // why the message fails; empty: it is sent
}

// stubCodes is a hookCodeService. Its sends end as ends says for the recipient, and calls has the
// mails and cancellations.
type stubCodes struct {
	ends  map[string]ending
	mu    sync.Mutex
	calls []string
}

func (c *stubCodes) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, what)
}

func (c *stubCodes) Send(_ context.Context, ask verification.Request) (verification.Answer, error) {
	end := c.ends[ask.To]
	time.Sleep(end.before)
	defer time.Sleep(end.after)
	send := verification.SendView{Status: store.Sent}
	if end.reason != "" {
		send = verification.SendView{Status: store.Failed, Reason: end.reason}
	}
	switch {
	case end.err != nil:
		return verification.Answer{}, end.err
	case len(end.refused.Rules) > 0:
		return verification.Answer{Quota: end.refused}, nil
	case !ask.MaySend():
		return verification.Answer{}, verification.ErrKeptBack
	}
	c.note("mail " + ask.To)
	return verification.Answer{Admitted: true, View: verification.View{ID: ask.To, Send: send}}, nil
}

func (c *stubCodes) NeverTogether(verification.Caller, string, string, ...string) bool { return false }

func (c *stubCodes) Cancel(_ context.Context, _ verification.Caller, id string) (verification.Answer, error) {
	c.note("cancel " + id)
	return verification.Answer{}, nil
}

func (c *stubCodes) post(t *testing.T, body string) string {
	t.Helper()
	secrets, logger := [][]byte{[]byte("a secret of a hook, long enough")}, slog.New(slog.NewTextHandler(io.Discard, nil))
	e := server.New(server.Config{Logger: logger})
	NewAuthHooks([]authhooks.Hook{{Name: "auth", App: "shop", Kind: authhooks.SupabaseEmail, Secrets: secrets}}, c, logger).Register(e)
	r := httptest.NewRequest(http.MethodPost, "/v1/hooks/auth", strings.NewReader(body))
	r.Header = http.Header{
		"Webhook-Id": {"1"}, "Webhook-Timestamp": {strconv.FormatInt(time.Now().Unix(), 10)},
		"Webhook-Signature": {standardwebhooks.Sign(secrets, "1", time.Now(), []byte(body))},
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

const change = `{"user":{"email":"a@example.com","new_email":"b@example.com"},"email_data":{"email_action_type":"email_change","token":"123456","token_new":"654321"}}`

// Either both codes of a request are sent or neither is, whatever happens to the second one. If the
// second message fails after it was admitted, the first code is canceled, since the auth server
// forgets both codes.
func TestHookSendsAllCodesOrNone(t *testing.T) {
	refused := quota.Decision{Rules: []quota.State{{
		Rule: quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
		Used: 1, RetryAfter: 42 * time.Second, ResetAfter: 42 * time.Second,
	}}}
	busy := "409 " + server.ProblemOf(verification.ErrKeyInProgress).Kind.Say
	away, gone := "503 "+server.Unavailable.Say, "422 "+server.DeliveryFailed.Say
	const both, canceled = "mail a@example.com, mail b@example.com", "cancel a@example.com, mail a@example.com, mail b@example.com"
	for name, c := range map[string]struct {
		second    ending
		answer    string
		wantCalls string
	}{
		"admitted":      {ending{}, "200 ", both},
		"refused":       {ending{refused: refused}, "429 The next code can be sent in 42 s.", ""},
		"an error":      {ending{before: time.Second, err: fault.Unavailable}, away, ""},
		"at work":       {ending{before: 4 * time.Second, err: verification.ErrKeyInProgress}, busy, ""},
		"in time":       {ending{before: 4*time.Second - 1}, "200 ", both},
		"too late":      {ending{before: 4*time.Second + 1}, away, ""},
		"answered late": {ending{after: time.Minute}, "200 ", both},
		"much later":    {ending{before: time.Minute}, away, ""},
		"no mailbox":    {ending{after: time.Second, reason: store.ReasonRejected}, gone, canceled},
		"suppressed":    {ending{after: time.Second, reason: store.ReasonSuppressed}, gone, canceled},
		"blocked":       {ending{after: time.Second, reason: store.ReasonBlocked}, gone, canceled},
		"paused":        {ending{after: time.Second, reason: store.ReasonPaused}, away, canceled},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			codes := &stubCodes{ends: map[string]ending{"b@example.com": c.second}}
			status, text, _ := strings.Cut(c.answer, " ")
			want := `200 {"error":{"http_code":` + status + `,"message":"` + text + `"}}`
			if status == "200" {
				want = "200 {}"
			}
			began := time.Now()
			servertest.Same(t, name, codes.post(t, change), want)
			if took := time.Since(began); took > hookDeadline+hookGrace {
				t.Errorf("%s: an answer after %v", name, took)
			}
			time.Sleep(2 * time.Minute)
			slices.Sort(codes.calls)
			servertest.Same(t, name, strings.Join(codes.calls, ", "), c.wantCalls)
		})
	}
}

// Each message of each hook has its own idempotency key, so a message of one hook is never treated
// as a repetition of another hook's message. No header Idempotency-Key gives such a key.
func TestCodeRequestsHaveKeysOfTheirOwn(t *testing.T) {
	body, keys := []byte(change), map[string]bool{}
	for _, name := range []string{"auth", "other"} {
		hook := authhooks.Hook{Name: name, App: "shop", Kind: authhooks.SupabaseEmail}
		r, err := hook.Parse(body)
		servertest.OK(t, err)
		for _, ask := range codeRequests(hook, r) {
			keys[ask.IdempotencyKey] = true
			if key, err := idempotencyKey(http.Header{"Idempotency-Key": {`"` + ask.IdempotencyKey + `"`}}); err == nil {
				t.Errorf("a header gives the key %q", key)
			}
		}
	}
	servertest.Same(t, "keys of two messages of two hooks", len(keys), 4)
}
