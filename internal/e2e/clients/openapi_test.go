package clients

import (
	"net/http"
	"testing"

	"sendcode/internal/app/apptest"
)

// What is answered is what the specification says, and everything that it names is answered.
func TestAnswersMatchTheSpecification(t *testing.T) {
	s := apptest.Embedded(t).Start(1)
	router := s.SpecRouter()
	sent := s.Ask(0, apptest.Ana)
	s.AwaitMail(apptest.Ana, 1)
	id := sent.ID
	asAdmin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+apptest.Token) }
	for _, c := range []struct {
		method, path, body string
		status             int
		change             func(*http.Request)
	}{
		{"POST", "/v1/verifications", `{"channel":"email","to":"bea@example.com","reference":"r-1"}`, 202, nil},
		{"POST", "/v1/verifications", `{"channel":"email","to":"` + apptest.Ana + `"}`, 429, nil},
		{"POST", "/v1/verifications", `{"channel":"email","to":"nobody"}`, 422, nil},
		{"POST", "/v1/verifications", `{`, 400, nil},
		{"POST", "/v1/verifications", `{"verification_id":"nothing"}`, 404, nil},
		{"POST", "/v1/verifications", `{"channel":"email","to":"cleo@example.com"}`, 202, apptest.WithKey("the-key-of-cleo-and-dora")},
		{"POST", "/v1/verifications", `{"channel":"email","to":"cleo@example.com"}`, 202, apptest.WithKey("the-key-of-cleo-and-dora")},
		{"POST", "/v1/verifications", `{"channel":"email","to":"dora@example.com"}`, 422, apptest.WithKey("the-key-of-cleo-and-dora")},
		{"POST", "/v1/verifications", `{"channel":"email","to":"dora@example.com"}`, 400, apptest.WithKey("a key that is not quoted")},
		{"GET", "/v1/verifications/" + id, "", 200, nil},
		{"GET", "/v1/verifications/nothing", "", 404, nil},
		{"POST", "/v1/verifications/" + id + "/check", `{"code":"000000"}`, 200, nil},
		{"POST", "/v1/verifications/" + id + "/check", `{"code":"x"}`, 422, nil},
		{"POST", "/v1/verifications/check", `{"channel":"email","to":"` + apptest.Ana + `","code":"000000"}`, 200, nil},
		{"POST", "/v1/verifications/check", `{"channel":"email","to":"never@example.com","code":"000000"}`, 404, nil},
		{"POST", "/v1/verifications/check", `{"channel":"email","to":"` + apptest.Ana + `","code":""}`, 422, nil},
		{"POST", "/v1/verifications/" + id + "/cancel", "", 200, nil},
		{"POST", "/v1/verifications/" + id + "/cancel", "{}", 200, nil},
		{"POST", "/v1/verifications/" + id + "/cancel", `{"why":1}`, 400, nil},
		{"POST", "/v1/verifications/nothing/cancel", "", 404, nil},
		{"POST", "/v1/quota", `{"channel":"email","to":"` + apptest.Ana + `"}`, 200, nil},
		{"POST", "/v1/quota", `{"channel":"email","to":"never@example.com","purpose":"default"}`, 200, nil},
		{"POST", "/v1/verifications", `{"channel":"sms","to":"0151 23456789","country":"DE"}`, 202, nil},
		{"POST", "/v1/verifications", `{"channel":"sms","to":"0151 23456789","country":"Germany"}`, 422, nil},
		{"GET", "/v1/channels", "", 200, nil},
		{"GET", "/v1/channels?purpose=default", "", 200, nil},
		{"GET", "/v1/channels", "", 401, asAdmin},
		{"GET", "/v1/admin/sends", "", 200, asAdmin},
		{"GET", "/v1/admin/sends?limit=1&status=sent", "", 200, asAdmin},
		{"GET", "/v1/admin/sends?limit=0", "", 422, asAdmin},
		{"GET", "/v1/admin/stats", "", 200, asAdmin},
		{"GET", "/v1/admin/stats?last=7d&channel=email", "", 200, asAdmin},
		{"GET", "/v1/admin/stats?status=sent", "", 422, asAdmin},
		{"GET", "/v1/admin/stats", "", 401, nil},
		{"GET", "/v1/admin/sends/" + sent.Send.ID, "", 200, asAdmin},
		{"GET", "/v1/admin/sends/00000000-0000-7000-8000-000000000000", "", 404, asAdmin},
		{"POST", "/v1/admin/search", `{"channel":"email","to":"` + apptest.Ana + `"}`, 200, asAdmin},
		{"GET", "/v1/admin/acts", "", 200, asAdmin},
		{"GET", "/v1/admin/acts?limit=0", "", 422, asAdmin},
		{"GET", "/v1/admin/acts", "", 401, nil},
		{"POST", "/v1/admin/suppressions", `{"channel":"email","to":"flo@example.com","reason":"asked"}`, 201, asAdmin},
		{"POST", "/v1/admin/suppressions", `{"channel":"email","to":"flo@example.com"}`, 422, asAdmin},
		{"POST", "/v1/verifications", `{"channel":"email","to":"flo@example.com"}`, 502, apptest.Patiently},
		{"GET", "/v1/admin/suppressions", "", 200, asAdmin},
		{"GET", "/v1/admin/suppressions?state=never", "", 422, asAdmin},
		{"POST", "/v1/admin/suppressions/lift", `{"channel":"email","to":"flo@example.com","reason":"mended"}`, 200, asAdmin},
		{"POST", "/v1/admin/suppressions/lift", `{`, 400, asAdmin},
		{"POST", "/v1/verifications", `{"channel":"email","to":"flo@example.com"}`, 202, apptest.Patiently},
		{"GET", "/v1/admin/prefixes", "", 200, asAdmin},
		{"GET", "/v1/admin/prefixes?state=never", "", 422, asAdmin},
		{"GET", "/v1/admin/prefixes", "", 401, nil},
		{"POST", "/v1/admin/prefixes/lift", `{"id":"00000000-0000-7000-8000-000000000000","reason":"ours"}`, 404, asAdmin},
		{"POST", "/v1/admin/prefixes/lift", `{"id":"x","reason":"ours"}`, 422, asAdmin},
		{"POST", "/v1/admin/prefixes/lift", `{`, 400, asAdmin},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/reveal", `{"reason":"ticket 7"}`, 200, asAdmin},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/reveal", `{"reason":""}`, 422, asAdmin},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/reveal", `{"reason":"ticket 7"}`, 401, nil},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/cancel", `{"reason":"ticket 7"}`, 409, asAdmin},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/resend", `{"reason":"ticket 7"}`, 409, asAdmin},
		{"POST", "/v1/admin/sends/00000000-0000-7000-8000-000000000000/cancel", `{"reason":"x"}`, 404, asAdmin},
		{"POST", "/v1/admin/quota/reset", `{"channel":"email","to":"bea@example.com","reason":"ticket 7"}`, 204, asAdmin},
		{"POST", "/v1/verifications", `{"channel":"email","to":"bea@example.com"}`, 202, nil},
		{"POST", "/v1/admin/quota/reset", `{"channel":"email","to":"bea@example.com","reason":"for bea@example.com"}`, 422, asAdmin},
		{"POST", "/v1/admin/erase", `{"channel":"email","to":"bea@example.com","purpose":"default","reason":"ticket 7"}`, 204, asAdmin},
		{"POST", "/v1/verifications", `{"channel":"email","to":"bea@example.com"}`, 429, nil},
		{"POST", "/v1/admin/erase", `{"channel":"email"}`, 422, asAdmin},
		{"GET", "/v1/admin/acts", "", 200, asAdmin},
		{"GET", "/v1/admin/sends", "", 401, nil},
		{"GET", "/widget.js", "", 200, nil},
		{"GET", "/v1/admin/webhooks", "", 200, asAdmin},
		{"GET", "/v1/admin/webhooks?state=lost", "", 422, asAdmin},
		{"GET", "/v1/admin/webhooks", "", 401, nil},
		{"GET", "/v1/admin/tail?limit=1", "", 422, asAdmin},
		{"GET", "/v1/admin/sends.csv?status=sent", "", 200, asAdmin},
		{"GET", "/v1/admin/sends.csv?limit=1", "", 422, asAdmin},
		{"GET", "/v1/admin/sends.csv", "", 401, nil},
		{"GET", "/v1/admin/tail", "", 401, nil},
	} {
		var change []func(*http.Request)
		if c.change != nil {
			change = append(change, c.change)
		}
		got := s.Do(0, c.method, c.path, c.body, change...)
		if got.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.method, c.path, got.StatusCode, c.status, got.Raw)
			continue
		}
		if err := apptest.Conforms(router, c.method, c.path, got); err != nil {
			t.Errorf("%s %s: %d: %v", c.method, c.path, got.StatusCode, err)
		}
	}
}
