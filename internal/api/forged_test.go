package api_test

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/api"
	"sendcode/internal/hooks"
	"sendcode/internal/reports"
	"sendcode/internal/server"
	"sendcode/internal/sns/snstest"
	"sendcode/internal/standardwebhooks"
)

// allocated returns the bytes that f allocates, of three runs the fewest.
func allocated(f func()) (fewest uint64) {
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; fewest == 0 || n < fewest {
			fewest = n
		}
	}
	return fewest
}

// However a forged request multiplies what it sends, it is answered 401 and costs no more than its
// body's length: work is told by what is allocated. Not parallel, since others' allocations count.
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
	for name, auth := range map[string]reports.Auth{
		"standard webhooks": {Scheme: reports.SchemeStandardWebhooks, Header: "webhook-"},
		"hmac":              {Scheme: reports.SchemeHMAC, Header: "X-Token"},
		"mailgun":           {Scheme: reports.SchemeMailgun},
		"header":            {Scheme: reports.SchemeSecretHeader, Header: "X-Token"},
		"basic":             {Scheme: "basic"},
		"sns":               {Scheme: reports.SchemeSNS, Topic: snstest.Topic},
	} {
		auth.Secrets = [][]byte{[]byte(right)}
		x := providerAPIWith(t, auth, nil, nil, nil)
		if name == "sns" {
			x = providerAPIWith(t, auth, nil, amazon.Subscriber(), nil)
		}
		costsItsLength(t, name, x.h, here, bodies, now)
	}
	e, logger := server.New(server.Config{Logger: slog.New(slog.DiscardHandler)}), slog.New(slog.DiscardHandler)
	api.NewHooks([]hooks.Hook{{Name: "auth", Server: hooks.SupabaseEmail, Secrets: hookSecrets[:1]}}, nil, logger).Register(e)
	for kind, body := range bodies {
		bodies[kind] = body[:hooks.MaxBodyBytes]
	}
	costsItsLength(t, "a hook", e, "/v1/hooks/auth", bodies, now)
	for kind, body := range bodies {
		bodies[kind] = body[:16<<10]
	}
	for _, path := range []string{"/v1/verifications/x/check", "/v1/proofs/redeem", "/v1/limits/x/take"} {
		costsItsLength(t, path, scoped(t), path, bodies, now)
	}
	if len(amazon.Asked()) != 0 {
		t.Errorf("certificates were read: %v", amazon.Asked())
	}
}

func costsItsLength(t *testing.T, name string, h http.Handler, path string, bodies map[string]string, now string) {
	t.Helper()
	for kind, body := range bodies {
		for headers, set := range map[string]func(http.Header){
			"none": func(http.Header) {},
			"3,500 signatures": func(h http.Header) {
				h.Set("Webhook-Id", "msg_1")
				h.Set("Webhook-Timestamp", now)
				h.Set("Webhook-Signature", strings.Repeat("v1,AA ", 3500))
			},
			"8 signatures": func(h http.Header) {
				h.Set("Webhook-Id", "msg_1")
				h.Set("Webhook-Timestamp", now)
				h.Set("Webhook-Signature", strings.Repeat("v1,"+base64.StdEncoding.EncodeToString(make([]byte, 32))+" ",
					standardwebhooks.MaxSignatures))
			},
			"a long token": func(h http.Header) {
				h.Set("X-Token", strings.Repeat("ab", 1<<13))
				h.Set("Authorization", "Basic "+strings.Repeat("YWE6YWFh", 1<<10))
			},
			"a long key": func(h http.Header) { h.Set("Authorization", "Bearer sk_"+strings.Repeat(".", 15<<10)) },
			"1,000 headers": func(h http.Header) {
				for range 1000 {
					h.Add("Webhook-Signature", "v1,AA")
					h.Add("X-Token", "x")
				}
			},
		} {
			status, read := 0, int64(0)
			got := allocated(func() {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
				set(r.Header)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				status, read = w.Code, int64(len(body))
			})
			// reading a body takes up to five times its length, since the buffer grows
			if status != http.StatusUnauthorized || got > uint64(8*read)+64<<10 {
				t.Errorf("%s, %s, %s: %d, and %d bytes are allocated for %d", name, kind, headers, status, got, read)
			}
		}
	}
}
