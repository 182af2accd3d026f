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
	"sendcode/internal/http/hooks"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

type sendFunc func(verification.Request) (verification.Answer, error)

// stubCodes answers sends by recipient, and notes what was done.
type stubCodes struct {
	answers map[string]sendFunc
	never   bool
	mu      sync.Mutex
	did     []string
}

func (c *stubCodes) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, what)
}

func (c *stubCodes) Send(_ context.Context, ask verification.Request) (verification.Answer, error) {
	return c.answers[ask.To](ask)
}

func (c *stubCodes) NeverTogether(verification.Caller, string, string, ...string) bool {
	return c.never
}

func (c *stubCodes) Cancel(_ context.Context, _ verification.Caller, id string) (verification.Answer, error) {
	c.note("cancel " + id)
	return verification.Answer{}, nil
}

// ends answers a send that both gates admit, and whose message ends so.
func (c *stubCodes) ends(status store.Status, reason string) sendFunc {
	return func(ask verification.Request) (verification.Answer, error) {
		if !ask.MaySend() {
			return verification.Answer{}, verification.ErrKeptBack
		}
		c.note("mail " + ask.To)
		return verification.Answer{Admitted: true, View: verification.View{ID: ask.To,
			Send: verification.SendView{Status: status, Reason: reason}}}, nil
	}
}

func (c *stubCodes) post(t *testing.T, body string) string {
	t.Helper()
	secrets, logger := [][]byte{[]byte("a secret of a hook, long enough")},
		slog.New(slog.NewTextHandler(io.Discard, nil))
	e := server.New(server.Config{Logger: logger})
	NewHooks([]hooks.Hook{{Name: "auth", App: "shop", Kind: hooks.SupabaseEmail, Secrets: secrets}}, c,
		logger).Register(e)
	r := httptest.NewRequest(http.MethodPost, "/v1/hooks/auth", strings.NewReader(body))
	r.Header = http.Header{"Webhook-Id": {"1"}, "Webhook-Timestamp": {strconv.FormatInt(time.Now().Unix(), 10)},
		"Webhook-Signature": {standardwebhooks.Sign(secrets, "1", time.Now(), []byte(body))}}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

const change = `{"user":{"email":"a@example.com","new_email":"b@example.com"},"email_data":{"email_action_type":"email_change","token":"123456","token_new":"654321"}}`

// Two codes of one request leave together, or none does: whatever happens to the second. If the second
// message fails after that, the first code is canceled, since the server forgets both.
func TestHookSendsAllCodesOrNone(t *testing.T) {
	sent := func(c *stubCodes) sendFunc { return c.ends(store.Sent, "") }
	fails := func(reason string) func(c *stubCodes) sendFunc {
		return func(c *stubCodes) sendFunc {
			return func(ask verification.Request) (verification.Answer, error) {
				defer time.Sleep(time.Second)
				return c.ends(store.Failed, reason)(ask)
			}
		}
	}
	after := func(d time.Duration, err error) func(c *stubCodes) sendFunc {
		return func(c *stubCodes) sendFunc {
			return func(ask verification.Request) (verification.Answer, error) {
				time.Sleep(d) // whatever the context says
				if err != nil {
					return verification.Answer{}, err
				}
				return c.ends(store.Sent, "")(ask)
			}
		}
	}
	refused := func(*stubCodes) sendFunc {
		return func(ask verification.Request) (verification.Answer, error) {
			return verification.Answer{Quota: quota.Decision{Rules: []quota.State{{Rule: quota.Rule{Name: "minute",
				Scope: quota.Recipient, Limit: 1, Window: time.Minute},
				Used: 1, RetryAfter: 42 * time.Second, ResetAfter: 42 * time.Second}}}}, nil
		}
	}
	busy := server.ProblemOf(verification.ErrKeyInProgress).Kind
	for name, c := range map[string]struct {
		second func(*stubCodes) sendFunc
		answer string
		did    string
	}{
		"admitted": {sent, "200 ", "mail a@example.com, mail b@example.com"},
		"refused":  {refused, "429 The next code can be sent in 42 s.", ""},
		"an error": {after(time.Second, fault.Unavailable), "503 " + server.Unavailable.Say, ""},
		"at work":  {after(4*time.Second, verification.ErrKeyInProgress), "409 " + busy.Say, ""},
		"in time":  {after(4*time.Second-1, nil), "200 ", "mail a@example.com, mail b@example.com"},
		"too late": {after(4*time.Second+1, nil), "503 " + server.Unavailable.Say, ""},
		"answered late": {func(c *stubCodes) sendFunc {
			return func(ask verification.Request) (verification.Answer, error) {
				defer time.Sleep(time.Minute)
				return c.ends(store.Sent, "")(ask)
			}
		}, "200 ", "mail a@example.com, mail b@example.com"},
		"much later":  {after(time.Minute, nil), "503 " + server.Unavailable.Say, ""},
		"no mailbox":  {fails(store.ReasonRejected), "422 " + server.DeliveryFailed.Say, "cancel a@example.com, mail a@example.com, mail b@example.com"},
		"suppressed":  {fails(store.ReasonSuppressed), "422 " + server.DeliveryFailed.Say, "cancel a@example.com, mail a@example.com, mail b@example.com"},
		"blocked":     {fails(store.ReasonBlocked), "422 " + server.DeliveryFailed.Say, "cancel a@example.com, mail a@example.com, mail b@example.com"},
		"paused":      {fails(store.ReasonPaused), "503 " + server.Unavailable.Say, "cancel a@example.com, mail a@example.com, mail b@example.com"},
		"one mailbox": {nil, "422 The old and the new address are one mailbox here, and two codes cannot go to it at once. Nothing was sent. Use another address.", ""},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			codes := &stubCodes{never: c.second == nil}
			codes.answers = map[string]sendFunc{"a@example.com": sent(codes)}
			if c.second != nil {
				codes.answers["b@example.com"] = c.second(codes)
			}
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
			slices.Sort(codes.did)
			servertest.Same(t, name, strings.Join(codes.did, ", "), c.did)
		})
	}
}

// Each message of each hook has a key of its own: what one hook sent is no repetition for another.
func TestCodeRequestsHaveKeysOfTheirOwn(t *testing.T) {
	body, keys := []byte(change), map[string]bool{}
	for _, name := range []string{"auth", "other"} {
		hook := hooks.Hook{Name: name, App: "shop", Kind: hooks.SupabaseEmail}
		r, err := hook.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		for _, ask := range codeRequests(hook, r) {
			keys[ask.IdempotencyKey] = true
		}
	}
	servertest.Same(t, "keys of two messages of two hooks", len(keys), 4)
}
