package clients

import (
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// asked is a request, and what has to come back. The answer to every refused one is a problem of
// this type about this field.
type asked struct {
	method, path, body string
	status             int
	change             func(*http.Request)
	problem, field     string
}

// What is answered is what the specification says, and everything that it names is answered. A
// malformed request is refused by its field, costs no try and sends nothing.
// TestTwoAppsReachNothingOfEachOther tries the administrators' routes with keys of apps.
func TestAnswersMatchTheSpecification(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Write(
		"limits: {month: [{name: month, key: user, limit: 3, per: month}], web: [{name: m, key: [resource, ip], limit: 9, window: 60s}]}\n").Start(1)
	router := s.SpecRouter()
	sent := s.Ask(0, apptest.Ana)
	s.AwaitMail(apptest.Ana, 1)
	id := sent.ID
	try := func(all []asked) {
		t.Helper()
		for _, c := range all {
			var change []func(*http.Request)
			if c.change != nil {
				change = append(change, c.change)
			}
			got := s.Do(0, c.method, c.path, c.body, change...)
			if got.StatusCode != c.status ||
				c.problem != "" && (got.Problem() != c.problem || got.Field != c.field ||
					got.Header.Get("Content-Type") != "application/problem+json") {
				t.Errorf("%s %s %.80s: %d, want %d %s: %s", c.method, c.path, c.body, got.StatusCode, c.status,
					c.problem, got.Raw)
				continue
			}
			if err := apptest.Conforms(router, c.method, c.path, got); err != nil && c.path != "/v1/nothing" &&
				c.method != "PUT" {
				t.Errorf("%s %s: %d: %v", c.method, c.path, got.StatusCode, err)
			}
			if c.problem != "" && s.Get("/problems/"+got.Problem()).StatusCode != 200 {
				t.Errorf("%s is not explained", got.Type)
			}
		}
	}
	try(malformed(id))
	for _, a := range []apptest.Answer{s.Look("nothing"), s.Check(0, "nothing", "123456"),
		s.Post("/v1/limits/none/peek", `{"keys":{}}`)} {
		if said := string(a.Raw); !strings.Contains(said, "There is no verification of this ID") &&
			!strings.Contains(said, "No limit of this name") {
			t.Errorf("what is missing is not said: %s", said)
		}
	}
	if c := s.Check(0, id, "000000"); c.AttemptsRemaining == nil || *c.AttemptsRemaining != 4 || len(s.Mails()) != 1 {
		t.Errorf("malformed requests cost a try or sent %d mails: %s", len(s.Mails()), c.Raw)
	}
	try([]asked{
		{"POST", "/v1/verifications", `{"channel":"email","to":"bea@example.com","reference":"r-1"}`, 202, nil, "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"` + apptest.Ana + `"}`, 429, nil, "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"cleo@example.com"}`, 202,
			apptest.WithKey("the-key-of-cleo-and-dora"), "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"cleo@example.com"}`, 202,
			apptest.WithKey("the-key-of-cleo-and-dora"), "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"dora@example.com"}`, 422,
			apptest.WithKey("the-key-of-cleo-and-dora"), "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"dora@example.com"}`, 400,
			apptest.WithKey("a key that is not quoted"), "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"dora@example.com","code":"q7Kz93","ttl":3600}`, 202,
			nil, "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"dora@example.com","code":"q7 Kz93"}`, 422, nil,
			"invalid-field", "code"},
		{"POST", "/v1/verifications", `{"channel":"email","to":"dora@example.com","code":"q7Kz93","ttl":0}`, 422, nil,
			"invalid-field", "ttl"},
		{"GET", "/v1/verifications/" + id, "", 200, nil, "", ""},
		{"POST", "/v1/verifications/" + id + "/check", `{"code":"000000"}`, 200, nil, "", ""},
		{"POST", "/v1/verifications/check", `{"channel":"email","to":"` + apptest.Ana + `","code":"000000"}`, 200,
			nil, "", ""},
		{"POST", "/v1/verifications/check", `{"channel":"email","to":"never@example.com","code":"000000"}`, 404,
			nil, "", ""},
		{"POST", "/v1/verifications/" + id + "/cancel", "", 200, nil, "", ""},
		{"POST", "/v1/verifications/" + id + "/cancel", `{"why":1}`, 400, nil, "", ""},
		{"POST", "/v1/verifications/nothing/cancel", "", 404, nil, "", ""},
		{"POST", "/v1/quota", `{"channel":"email","to":"` + apptest.Ana + `"}`, 200, nil, "", ""},
		{"POST", "/v1/verifications", `{"channel":"sms","to":"0151 23456789","country":"DE"}`, 202, nil, "", ""},
		{"POST", "/v1/verifications", `{"channel":"sms","to":"0151 23456789","country":"Germany"}`, 422, nil, "", ""},
		{"GET", "/v1/channels", "", 200, nil, "", ""},
		{"GET", "/v1/channels", "", 401, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/sends", "", 200, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/sends?limit=0", "", 422, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/stats", "", 200, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/stats?status=sent", "", 422, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/sends/" + sent.Send.ID, "", 200, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/sends/00000000-0000-7000-8000-000000000000", "", 404, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/search", `{"channel":"email","to":"` + apptest.Ana + `"}`, 200, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/acts", "", 200, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/suppressions", `{"channel":"email","to":"flo@example.com","reason":"asked"}`, 201,
			apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/suppressions", `{"channel":"email","to":"flo@example.com"}`, 422, apptest.AsAdmin, "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"flo@example.com"}`, 502, apptest.Patiently, "", ""},
		{"GET", "/v1/admin/suppressions", "", 200, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/suppressions?state=never", "", 422, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/suppressions/lift", `{"channel":"email","to":"flo@example.com","reason":"mended"}`, 200,
			apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/suppressions/lift", `{`, 400, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/prefixes", "", 200, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/prefixes?state=never", "", 422, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/prefixes/lift", `{"id":"00000000-0000-7000-8000-000000000000","reason":"ours"}`, 404,
			apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/prefixes/lift", `{"id":"x","reason":"ours"}`, 422, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/reveal", `{"reason":"ticket 7"}`, 200, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/reveal", `{"reason":""}`, 422, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/cancel", `{"reason":"ticket 7"}`, 409, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/resend", `{"reason":"ticket 7"}`, 409, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/sends/00000000-0000-7000-8000-000000000000/cancel", `{"reason":"x"}`, 404,
			apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/quota/reset", `{"channel":"email","to":"bea@example.com","reason":"ticket 7"}`, 204,
			apptest.AsAdmin, "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"bea@example.com"}`, 202, nil, "", ""},
		{"POST", "/v1/admin/quota/reset", `{"channel":"email","to":"bea@example.com","reason":"for bea@example.com"}`,
			422, apptest.AsAdmin, "", ""},
		{"POST", "/v1/admin/erase",
			`{"channel":"email","to":"bea@example.com","purpose":"default","reason":"ticket 7"}`, 204,
			apptest.AsAdmin, "", ""},
		{"POST", "/v1/verifications", `{"channel":"email","to":"bea@example.com"}`, 429, nil, "", ""},
		{"POST", "/v1/admin/erase", `{"channel":"email"}`, 422, apptest.AsAdmin, "", ""},
		{"GET", "/widget.js", "", 200, nil, "", ""},
		{"GET", "/v1/admin/webhooks", "", 200, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/webhooks?state=lost", "", 422, apptest.AsAdmin, "", ""},
		{"GET", "/v1/admin/sends.csv?limit=1", "", 422, apptest.AsAdmin, "", ""},
		{"POST", "/v1/limits/month/take", `{"keys":{"user":"42"}}`, 200, nil, "", ""},
		{"POST", "/v1/limits/month/peek", `{"keys":{"user":"42"}}`, 200, nil, "", ""},
		{"POST", "/v1/limits/month/record", `{"keys":{"user":"42"}}`, 200, nil, "", ""},
		{"POST", "/v1/limits/month/take", `{"keys":{"user":"42"}}`, 200, nil, "", ""},
		{"POST", "/v1/limits/month/take", `{"keys":{"user":"42"}}`, 429, nil, "", ""},
	})
	s.Counts(`sendcode_limit_requests_total{limit="month",operation="take",outcome="refused"}`, "1")
	for _, path := range []string{"/", "/widget.js", "/client.js", "/static/page.css", "/static/page.js",
		"/openapi.yaml", "/problems/quota-exceeded"} {
		for _, encoding := range []string{"br", "gzip"} {
			got := s.Get(path, with("Accept-Encoding", encoding))
			s.Is(path+" as "+encoding, got, http.StatusOK, got.Header.Get("Content-Encoding") == encoding,
				len(got.Header.Values("Vary")) != 0)
		}
	}
}

// malformed are requests that are refused. id names a verification.
func malformed(id string) []asked {
	const path, ana = "/v1/verifications", `{"channel":"email","to":"x@example.com"`
	check, long := path+"/"+id+"/check", strings.Repeat("x", 201)
	return []asked{
		{"POST", path, `{"channel":"email",`, 400, nil, "malformed-json", ""},
		{"POST", check, `{"code":"000000","code":"111111"}`, 400, nil, "malformed-json", "code"},
		{"POST", path, `{"channel":"email","to":"` + strings.Repeat("a", 1<<20) + `"}`, 413, nil, "too-large", ""},
		{"POST", path, `{"channel":"email","to":"x@example.com\r\nBcc: y@example.com"}`, 422, nil,
			"invalid-field", "to"},
		{"POST", path, `{"verification_id":"nothing"}`, 404, nil, "not-found", ""},
		{"POST", path, `{"channel":"fax","to":"x@example.com","purpose":"nope"}`, 422, nil, "invalid-field", "channel"},
		{"POST", path, ana + `}`, 401, with("Authorization", ""), "unauthorized", ""},
		{"POST", path, "channel=email", 415, with("Content-Type", "application/x-www-form-urlencoded"),
			"unsupported-media-type", ""},
		{"PUT", path, ana + `}`, 405, nil, "method-not-allowed", ""},
		{"GET", "/v1/nothing", "", 404, nil, "not-found", ""},
		{"POST", path + "/nothing/check", `{"code":"123456"}`, 404, nil, "not-found", ""},
		{"POST", check, `{"code":123456}`, 422, nil, "invalid-field", "code"},
		{"POST", check, `{"code":"12-345"}`, 422, nil, "invalid-field", "code"},
		{"POST", path + "/check", `{"channel":"email","to":"` + apptest.Ana + `","code":"123 4567"}`, 422, nil,
			"invalid-field", "code"},
		{"POST", check, `{"code":"` + long + `"}`, 422, nil, "invalid-field", "code"},
		{"POST", "/v1/limits/none/take", `{"keys":{"user":"1"}}`, 404, nil, "not-found", ""},
		{"POST", "/v1/limits/web/take", `{"keys":{"ip":"203.0.113.9"}}`, 422, nil, "invalid-field", "keys.resource"},
		{"POST", "/v1/limits/month/take", `{"keys":{"user":"42"},"n":2}`, 400, nil, "unknown-field", "n"},
	}
}

// What the specification says of a request that is refused is so: a path that it names refuses
// other methods with 405 and Allow, without a key too; a body that is too large is a 413 wherever
// one may be sent; and a text that is refused for its form is none of the specification's.
func TestRefusalsMatchTheSpecification(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Write("limits: {month: [{name: month, key: user, limit: 3, per: month}]}\n").Start(1)
	router, sent := s.SpecRouter(), s.Ask(0, apptest.Ana)
	concrete := strings.NewReplacer("{limit}", "month", "{id}", "00000000-0000-7000-8000-000000000000", "{name}", "any",
		"{carrier}", "any")
	key := func(path string) func(*http.Request) {
		if strings.HasPrefix(path, "/v1/admin") {
			return apptest.AsAdmin
		}
		return apptest.As(apptest.APIKey)
	}
	seen := 0
	for path, item := range s.OpenAPI().Paths.Map() {
		at := concrete.Replace(path)
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			operation := item.GetOperation(method)
			switch {
			case method == "GET" && path == "/v1/verifications/check": // the verification "check"
			case operation == nil:
				a := s.Do(0, method, at, "", with("Authorization", ""))
				if a.StatusCode != http.StatusMethodNotAllowed || !strings.Contains(a.Header.Get("Allow"), "OPTIONS") ||
					strings.Contains(a.Header.Get("Allow"), method) {
					t.Errorf("%s %s: %d, Allow %q", method, at, a.StatusCode, a.Header.Get("Allow"))
				}
			// none of this name is there
			case operation.RequestBody != nil && path != "/v1/events/{name}" && path != "/v1/hooks/{name}":
				a := s.Do(0, method, at, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`, key(path))
				if err := apptest.Conforms(router, method, at, a); a.StatusCode != http.StatusRequestEntityTooLarge ||
					err != nil {
					t.Errorf("%s %s with a large body: %d, %v", method, at, a.StatusCode, err)
				}
				seen++
			}
		}
	}
	if seen < 15 {
		t.Errorf("%d operations have a body", seen)
	}
	const ask = `{"channel":"email","to":"x@example.com",`
	idempotent := func(key string) func(*http.Request) { return with("Idempotency-Key", key) }
	for _, c := range []struct {
		method, path, body string
		change             func(*http.Request)
	}{
		{"POST", "/v1/verifications", ask + `"client_ip":"nowhere"}`, nil},
		{"POST", "/v1/verifications", ask + `"locale":"a b"}`, nil},
		{"POST", "/v1/verifications", ask + `"locale":"` + strings.Repeat("x", 36) + `"}`, nil},
		{"POST", "/v1/verifications", ask + `"reference":"a\nb"}`, nil},
		{"POST", "/v1/verifications", ask + `"session":"a\u0085b"}`, nil},
		{"POST", "/v1/verifications", ask + `"purpose":"Log in"}`, nil},
		{"POST", "/v1/verifications", ask + `"trust":"friend"}`, nil},
		{"POST", "/v1/verifications", `{"channel":"sms","to":"0151 23456789","country":"de"}`, nil},
		{"POST", "/v1/verifications", `{"channel":"post","to":"x"}`, nil},
		{"POST", "/v1/verifications", ask + `"to":"x@example.com"}`, idempotent("too short")},
		{"POST", "/v1/verifications", `{"channel":"email","to":"x@example.com"}`,
			idempotent("a key that is not quoted")},
		{"POST", "/v1/verifications", `{"channel":"email","to":"x@example.com"}`, idempotent("a,list;of,parameters")},
		{"POST", "/v1/verifications/" + sent.ID + "/check", `{"code":"12-34"}`, nil},
		{"POST", "/v1/verifications/" + sent.ID + "/check", `{}`, nil},
		{"POST", "/v1/verifications/check", `{"to":"x@example.com","code":"123456"}`, nil},
		{"POST", "/v1/quota", `{"to":"x@example.com"}`, nil},
		{"POST", "/v1/admin/erase", `{"channel":"email","to":"x@example.com","reason":"a\u0007b"}`, nil},
		{"POST", "/v1/admin/suppressions", `{"channel":"email","to":"x@example.com","reason":""}`, nil},
		{"GET", "/v1/admin/sends?network=here", "", nil},
		{"GET", "/v1/admin/sends?country=Germany", "", nil},
		{"GET", "/v1/admin/sends?support=S-1", "", nil},
		{"GET", "/v1/admin/sends?recipient=ana", "", nil},
		{"GET", "/v1/admin/sends?limit=201", "", nil},
		{"GET", "/v1/admin/sends?from=today", "", nil},
	} {
		change := []func(*http.Request){key(c.path)}
		if c.change != nil {
			change = append(change, c.change)
		}
		a := s.Do(0, c.method, c.path, c.body, change...)
		if err := apptest.Asks(router, c.method, c.path, c.body, change...); err == nil ||
			a.StatusCode != 400 && a.StatusCode != 422 {
			t.Errorf("%s %s %s: %d %s; the specification says %v", c.method, c.path, c.body, a.StatusCode, a.Raw, err)
		}
	}
}
