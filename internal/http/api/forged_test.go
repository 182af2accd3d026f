package api_test

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sns/snstest"
	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/http/api"
	"sendcode/internal/http/authhooks"
	"sendcode/internal/http/server"
)

// A forged request gets a 401. The bytes that it makes the service allocate are in proportion to
// the length of its body, even if it repeats a member many times. The test is not parallel, because
// the allocations of other tests would count.
func TestForgedRequestsCostTheirLength(t *testing.T) {
	const most = 1<<20 - 1024
	fill := func(unit string) string { return strings.Repeat(unit, most/len(unit)) }
	bodies := map[string]string{
		"text": fill("x"), "depth": fill("["), "lists": "[" + fill("[],") + "[]]", "members": "{" + fill(`"a":{},`) + `"b":1}`,
		"numbers": "[" + fill("1,") + "1]", "signatures": `{"signature":{` + fill(`"token":"",`) + `"token":""}}`,
		"topics": "{" + fill(`"TopicArn":"",`) + `"Type":1}`,
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	amazon := snstest.New(t)
	for name, auth := range map[string]feedback.Auth{
		"standard webhooks": {Scheme: feedback.SchemeStandardWebhooks, Header: "webhook-"},
		"hmac":              {Scheme: feedback.SchemeHMAC, Header: "X-Token"},
		"mailgun":           {Scheme: feedback.SchemeMailgun},
		"header":            {Scheme: feedback.SchemeSecretHeader, Header: "X-Token"},
		"basic":             {Scheme: "basic"},
		"dsn":               {Scheme: feedback.SchemeDSN},
		"sns":               {Scheme: feedback.SchemeSNS, Topic: snstest.Topic},
	} {
		auth.Secrets = [][]byte{[]byte(right)}
		x := providerAPIWith(t, auth, nil, nil, nil)
		if name == "sns" {
			x = providerAPIWith(t, auth, nil, amazon.Subscriber(), nil)
		}
		costsItsLength(t, name, x.h, here, bodies, now)
	}
	e, logger := server.New(server.Config{Logger: slog.New(slog.DiscardHandler)}), slog.New(slog.DiscardHandler)
	api.NewAuthHooks([]authhooks.Hook{{Name: "auth", Kind: authhooks.SupabaseEmail, Secrets: hookSecrets[:1]}}, nil, logger).Register(e)
	for kind, body := range bodies {
		bodies[kind] = body[:authhooks.MaxBodyBytes]
	}
	costsItsLength(t, "a hook", e, "/v1/hooks/auth", bodies, now)
	for kind, body := range bodies {
		bodies[kind] = body[:15<<10]
	}
	for _, path := range []string{"/v1/verifications/x/check", "/v1/proofs/redeem", "/v1/limits/x/take"} {
		costsItsLength(t, path, scoped(t), path, bodies, now)
	}
	if len(amazon.Asked()) != 0 {
		t.Errorf("certificates were read: %v", amazon.Asked())
	}
}

// costsItsLength posts each body without extra headers, and one body with each set of headers. It
// fails the test if an answer is not a 401, or if a request allocates too much for its length.
func costsItsLength(t *testing.T, name string, h http.Handler, path string, bodies map[string]string, now string) {
	t.Helper()
	signed := func(signatures string) http.Header {
		return http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {now}, "Webhook-Signature": {signatures}}
	}
	one := "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32)) + " "
	headers := map[string]http.Header{
		"3,500 signatures": signed(strings.Repeat("v1,AA ", 3500)),
		"8 signatures":     signed(strings.Repeat(one, standardwebhooks.MaxSignatures)),
		"a long token":     {"X-Token": {strings.Repeat("ab", 1<<13)}, "Authorization": {"Basic " + strings.Repeat("YWE6YWFh", 1<<10)}},
		"a long key":       {"Authorization": {"Bearer sk_" + strings.Repeat(".", 15<<10)}},
		"1,000 headers":    {"Webhook-Signature": slices.Repeat([]string{"v1,AA"}, 1000), "X-Token": slices.Repeat([]string{"x"}, 1000)},
	}
	try := func(kind, body string, header http.Header) {
		r, w := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header = header
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		// reading a body takes up to five times its length, since the buffer grows
		if got := after.TotalAlloc - before.TotalAlloc; w.Code != http.StatusUnauthorized || got > uint64(8*len(body))+64<<10 {
			t.Errorf("%s, %s: %d, and %d bytes are allocated for %d", name, kind, w.Code, got, len(body))
		}
	}
	for kind, body := range bodies {
		try(kind, body, http.Header{})
	}
	for kind, header := range headers {
		try(kind, bodies["text"], header)
	}
}
