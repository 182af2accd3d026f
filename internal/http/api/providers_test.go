package api_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sns"
	"sendcode/internal/http/api"
	"sendcode/internal/http/authhooks"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// ingester records events and returns the result that the test has set.
type ingester struct {
	recorded []feedback.Event
	answer   feedback.IngestResult
	err      error
	each     time.Duration // how long it takes to record an event
}

func (i *ingester) Ingest(ctx context.Context, _ string, e feedback.Event) (feedback.IngestResult, error) {
	i.recorded = append(i.recorded, e)
	time.Sleep(i.each)
	return i.answer, cmp.Or(i.err, ctx.Err())
}

func (i *ingester) IngestMail(_ context.Context, _ string, mail []byte) (feedback.IngestResult, error) {
	i.recorded = append(i.recorded, feedback.Event{Type: string(mail)})
	return i.answer, i.err
}

type providerAPI struct {
	*testing.T
	events  *ingester
	counts  []string
	kind    string // Content-Type of requests
	hangsUp bool   // the provider does not wait for the answer
	h       http.Handler
}

const eventID = "0198c1d2-7a54-7a3e-8a4f-0123456789ab"

func newProviderAPI(t *testing.T) *providerAPI {
	auth := feedback.Auth{Scheme: feedback.SchemeSecretHeader, Header: "X-Token", Secrets: [][]byte{[]byte(right)}}
	return providerAPIWith(t, auth, nil, nil, nil)
}

// useSignature decides whether a signature may be used, and counts its use.
type useSignature func(ctx context.Context, r quota.Request) (quota.Decision, error)

// providerAPIWith returns the API with a provider that authenticates by auth. The provider may
// report through a topic whose subscriptions admin accepts.
func providerAPIWith(t *testing.T, auth feedback.Auth, use useSignature, topic *sns.Topic, admin *accepting) *providerAPI {
	t.Helper()
	source := feedback.Source{Name: "post", Auth: auth, Format: feedback.EventFormat{
		Type: []feedback.JSONPath{{"kind"}}, Message: []feedback.JSONPath{{"tag"}}, To: []feedback.JSONPath{{"to"}},
		Detail: []feedback.JSONPath{{"why"}},
		Outcomes: map[string]feedback.EventMeaning{
			"ok": feedback.Delivered, "gone": feedback.BouncedForGood, "back": feedback.Bounced,
			"spam": feedback.Complained,
			"stop": feedback.OptedOut, "read": feedback.Ignored,
		},
	}}
	x := &providerAPI{T: t, events: &ingester{answer: "delivered"}, kind: "text/plain; charset=UTF-8"} // the Content-Type that Amazon sends
	logger := slog.New(slog.DiscardHandler)
	e := server.New(server.Config{Logger: logger})
	var mu sync.Mutex
	(&api.EventHandlers{
		Sources: map[string]feedback.Source{"post": source}, Topics: map[string]*sns.Topic{"post": topic}, Subscriptions: admin,
		Events: x.events, Use: use, Logger: logger, Count: func(p, o string) {
			mu.Lock()
			defer mu.Unlock()
			x.counts = append(x.counts, p+" "+o)
		},
	}).Register(e)
	x.h = e
	return x
}

func (p *providerAPI) post(path, token, body string, status int) *httptest.ResponseRecorder {
	p.Helper()
	p.events.recorded, p.counts = nil, nil
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("X-Token", token)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", p.kind)
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	if p.hangsUp {
		cancel()
	}
	rec := httptest.NewRecorder()
	p.h.ServeHTTP(rec, req.WithContext(ctx))
	if rec.Code != status {
		p.Errorf("%s %.60s: %d %s, want %d", path, body, rec.Code, rec.Body, status)
	}
	return rec
}

const right, here = "a secret of both of us", "/v1/events/post"

func TestProviderEvents(t *testing.T) {
	x := newProviderAPI(t)
	x.post(here, right, `[{"kind":"ok","tag":"`+eventID+`"},{"kind":"gone","tag":"<`+eventID+
		`@shop.example>","to":"ana@example.com","why":"550 5.1.1"}]`, 204)
	id := uuid.MustParse(eventID)
	want := []feedback.Event{
		{Type: "ok", Mapped: true, Meaning: feedback.Delivered, Send: id},
		{
			Type: "gone", Mapped: true, Meaning: feedback.BouncedForGood, Send: id, To: "ana@example.com", Detail: "550 5.1.1",
			Words: "550 5.1.1",
		},
	}
	if !slices.Equal(x.events.recorded, want) {
		t.Errorf("%+v", x.events.recorded)
	}
	for _, answer := range feedback.IngestResults {
		x.events.answer = answer
		x.post(here, right, `{"kind":"ok"}`, 204) // so that the provider does not repeat its report
		if !slices.Equal(x.counts, []string{"post " + string(answer)}) || !slices.Contains(api.ProviderOutcomes(), string(answer)) {
			t.Errorf("%v", x.counts)
		}
	}
	x.events.err = fault.Unavailable
	if rec := x.post(here, right, `[{"kind":"ok"},{"kind":"spam"}]`, 503); rec.Header().Get("Retry-After") == "" ||
		len(x.events.recorded) != 1 || x.counts[0] != "post unavailable" {
		t.Errorf("%v %v", rec.Header(), x.counts)
	}
	x.events.err = errors.New("something else")
	x.post(here, right, `{"kind":"ok"}`, 500)
}

// If a provider disconnects, the service goes on recording the events for at most a minute, because
// the provider would post the whole list again.
func TestProviderEventsAfterAHangUp(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		x := newProviderAPI(t)
		x.hangsUp, x.events.each = true, 20*time.Second
		list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`{"kind":"ok"},`, n), ",") + "]" }
		x.post(here, right, list(3), 204)
		servertest.Same(t, "heard", len(x.events.recorded), 3)
		x.post(here, right, list(9), 503)
		servertest.Same(t, "heard of a longer list", len(x.events.recorded), 3)
	})
}

// A mail with the right token gets 204, or 503 if a repetition of the request can succeed. A
// request with another Content-Type gets 415, and one with too large a body 413.
func TestProviderEventsOfPostedMails(t *testing.T) {
	x := providerAPIWith(t, feedback.Auth{Scheme: feedback.SchemeDSN, Secrets: [][]byte{[]byte(right)}}, nil, nil, nil)
	for _, c := range []struct {
		token, kind, mail string
		err               error
		status            int
		count             string // empty: none
	}{
		{right, "message/rfc822", "To: ana\n\nx", nil, 204, "delivered"},
		{right, "Message/RFC822; charset=utf-8", "\x00", nil, 204, "delivered"},
		{right, "message/rfc822", "x", fault.Unavailable, 503, "unavailable"},
		{right, "text/plain", "x", nil, 415, "malformed"},
		{right + "x", "message/rfc822", "x", nil, 401, "forged"},
		{right, "message/rfc822", strings.Repeat("x", feedback.MaxBodyBytes), nil, 204, "delivered"},
		{right, "message/rfc822", strings.Repeat("x", feedback.MaxBodyBytes+1), nil, 413, ""},
	} {
		x.kind, x.events.err = c.kind, c.err
		x.post(here, c.token, c.mail, c.status)
		if got := strings.Join(x.counts, " "); got != strings.TrimSuffix("post "+c.count, "post ") ||
			(len(x.events.recorded) == 1) != (c.status == 204 || c.status == 503) {
			t.Errorf("%s: %q, %d mails", c.kind, got, len(x.events.recorded))
		}
	}
}

var requestID = regexp.MustCompile(`"request_id":"[^"]*",`)

// If the headers are enough to refuse a request, no byte of its body is read, so the body costs no
// memory. The same holds for a body with too large a Content-Length.
func TestProviderEventRefusedByHeaders(t *testing.T) {
	secrets, old := [][]byte{[]byte(right)}, strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)
	now := strconv.FormatInt(time.Now().Unix(), 10)
	for _, c := range []struct {
		auth   feedback.Auth
		header []string
		want   int
	}{
		{feedback.Auth{Scheme: feedback.SchemeSecretHeader, Header: "X-Token"}, []string{"X-Token", "wrong"}, 401},
		{feedback.Auth{Scheme: feedback.SchemeSecretHeader, Header: "X-Token"}, nil, 401},
		{feedback.Auth{Scheme: feedback.SchemeDSN}, []string{"Authorization", "Bearer wrong"}, 401},
		{feedback.Auth{Scheme: "basic"}, []string{"Authorization", "Basic eDp3cm9uZw=="}, 401},
		{feedback.Auth{Scheme: feedback.SchemeHMAC, Header: "X-Sign"}, nil, 401},
		{feedback.Auth{Scheme: feedback.SchemeStandardWebhooks, Header: "webhook-"}, nil, 401},
		{
			feedback.Auth{Scheme: feedback.SchemeStandardWebhooks, Header: "webhook-"},
			[]string{"Webhook-Id", "1", "Webhook-Timestamp", old, "Webhook-Signature", "v1,x"}, 401,
		},
		{
			feedback.Auth{Scheme: feedback.SchemeStandardWebhooks, Header: "webhook-"},
			[]string{"Webhook-Id", "1", "Webhook-Timestamp", now}, 401,
		},
		{feedback.Auth{Scheme: feedback.SchemeSecretHeader, Header: "X-Token"}, []string{"X-Token", right}, 413},
	} {
		c.auth.Secrets = secrets
		x := providerAPIWith(t, c.auth, nil, nil, nil)
		r := httptest.NewRequest(http.MethodPost, here, unread{t})
		r.ContentLength = feedback.MaxBodyBytes + 1
		for i := 0; i+1 < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		w := httptest.NewRecorder()
		x.h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %q: %d, want %d", c.auth.Scheme, c.header, w.Code, c.want)
		}
	}
	for _, header := range []string{"X-None", "Webhook-Id"} {
		s := newSupabase(vtest.NewRig(t, nil), authhooks.SupabaseEmail)
		r := httptest.NewRequest(http.MethodPost, "/v1/hooks/auth", unread{t})
		r.Header.Set(header, "1")
		w := httptest.NewRecorder()
		s.e.ServeHTTP(w, r)
		servertest.Same(t, "hook with "+header, w.Code, 401)
	}
}

// A sender that is not the provider learns nothing, not even whether its body could be parsed.
func TestProviderEventsThatAreForged(t *testing.T) {
	x := newProviderAPI(t)
	var first string
	for _, token := range []string{"", right + "x"} {
		for _, body := range []string{`{"kind":"spam","tag":"` + eventID + `"}`, "{", ""} {
			answer := requestID.ReplaceAllString(x.post(here, token, body, 401).Body.String(), "")
			if first == "" {
				first = answer
			}
			if answer != first || len(x.events.recorded) != 0 || !slices.Equal(x.counts, []string{"post forged"}) {
				t.Errorf("%q %s: %s %v", token, body, answer, x.counts)
			}
		}
	}
	x.post("/v1/events/other", right, `{}`, 404)
	x.post("/v1/events/", right, `{}`, 404)
	x.post(here, right, `{`, 400)
	if !slices.Equal(x.counts, []string{"post malformed"}) {
		t.Errorf("%v", x.counts)
	}
	x.post(here, right, strings.Repeat(" ", 100_000)+`{"kind":"ok"}`, 204) // larger than other routes allow
	x.post(here, right, strings.Repeat(" ", feedback.MaxBodyBytes)+`{"kind":"ok"}`, 413)
	if len(x.events.recorded) != 0 || len(x.counts) != 0 {
		t.Errorf("%v", x.counts)
	}
}
