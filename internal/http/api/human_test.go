package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sendcode/internal/http/api"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/verification"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// A stranger without a pass gets 428 with a challenge and with the wait as in a 429. With a wrong
// pass, the answer is 422 with the reason and a new challenge. A read says that the next send would
// need a pass. A request with a secret key needs a pass only for a stranger.
func TestHumanCheckAnswersForStrangers(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		e := newAPI(t, func(s *verificationtest.Settings) {
			policyOf(quota.Rule{Name: "wide", Scope: quota.App, Limit: 2, Window: time.Hour})(s)
			s.Humans = map[string]humancheck.Check{"shop": {Cost: 1000}}
		})
		browser := client{t, e, "203.0.113.9", public}
		id := browser.admitted(alice)
		type answer struct {
			status          int
			header          string // Retry-After
			retryAfter      int
			reason, by      string
			work, next      bool // the answer has work, and the next send would need a pass
			blockedBy       string
			quotaRetryAfter int
			rules           string
		}
		want := func(what string, w *httptest.ResponseRecorder, want answer) {
			t.Helper()
			var body struct {
				RetryAfter int `json:"retry_after"`
				Reason     string
				HumanCheck humancheck.Offer `json:"human_check"`
				BlockedBy  string           `json:"blocked_by"`
				Quota      struct {
					HumanCheck bool `json:"human_check"`
					RetryAfter int  `json:"retry_after"`
					Rules      []struct{ Name string }
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
			servertest.Same(t, what, answer{
				w.Code, w.Header().Get("Retry-After"), body.RetryAfter, body.Reason, body.HumanCheck.By, body.HumanCheck.Work != nil,
				body.Quota.HumanCheck, body.BlockedBy, body.Quota.RetryAfter, fmt.Sprint(body.Quota.Rules),
			}, want)
		}
		send := func(c client, more string) *httptest.ResponseRecorder {
			return c.do(http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q%s}`, bob, more))
		}
		back := client{t, e, "192.0.2.1", secret}
		want("a look", browser.do(http.MethodGet, "/v1/verifications/"+id, ""),
			answer{status: 200, next: true, quotaRetryAfter: 86400, rules: "[{minute} {day} {wide} {client} {network}]"})
		asked := answer{
			status: 428, header: "3600", retryAfter: 3600, by: "work", work: true, blockedBy: "wide", quotaRetryAfter: 3600, rules: "[{wide}]",
		}
		want("without a token", send(browser, ""), asked)
		rejected := asked
		rejected.status, rejected.reason = 422, "rejected"
		want("with a wrong token", send(browser, `,"human_check":"work:e30="`), rejected)
		want("for a stranger", send(back, ""), asked)
		want("for another", send(back, `,"trust":"friend"`), answer{status: 422, reason: "unknown", rules: "[]"})
		want("the quota of a stranger",
			back.do(http.MethodPost, "/v1/quota", fmt.Sprintf(`{"channel":"email","to":%q}`, bob)),
			answer{status: 200, next: true, rules: "[{minute} {day} {wide}]"})
		back.admitted(bob)
	})
}

// vendor is a stub that accepts every answer to its human check.
type vendor struct{}

func (vendor) By() string      { return "turnstile" }
func (vendor) SiteKey() string { return "key" }
func (vendor) Available() bool { return true }
func (vendor) Check(context.Context, humancheck.VendorQuery) (humancheck.Result, error) {
	return humancheck.Result{Passed: true}, nil
}

// If each stranger's first send needs a pass, our page uses work, even if a vendor checks on other
// sites. The next send needs no pass.
func TestHumanCheckOfOurPageIsWork(t *testing.T) {
	always := func(s *verificationtest.Settings) {
		s.Humans = map[string]humancheck.Check{"shop": {Always: true, Cost: 1000, Vendor: vendor{}}}
	}
	verificationtest.InBubbleWith(t, always, func(r *verificationtest.Rig) {
		page := api.NewPageKey("shop", verification.PageOffer{Purposes: []string{"default"}})
		e := r.Svc.Routes(api.Keys{keyOf("shop", public), page}, api.Services{})
		send := func(key, more string) (status int, asked *humancheck.Offer, id string) {
			w := client{r.T, e, "192.0.2.1", key}.do(http.MethodPost, "/v1/verifications",
				`{"channel":"email","to":"`+alice+`"`+more+`}`, "Sec-Fetch-Site", "same-origin")
			var body struct {
				ID         string
				HumanCheck *humancheck.Offer `json:"human_check"`
			}
			r.NoError(json.Unmarshal(w.Body.Bytes(), &body))
			return w.Code, body.HumanCheck, body.ID
		}
		_, asked, _ := send(public, "")
		type offer struct {
			by, siteKey string
			work        bool
		}
		verificationtest.Equal(r, "a site is asked by", offer{asked.By, asked.SiteKey, asked.Work != nil}, offer{"turnstile", "key", true})
		status, asked, _ := send(pageOfShop, "")
		r.Want("status on our page", status, http.StatusPreconditionRequired)
		verificationtest.Equal(r, "our page is asked by", offer{asked.By, asked.SiteKey, asked.Work != nil}, offer{"work", "", true})
		status, asked, id := send(pageOfShop, `,"human_check":"`+verificationtest.Solve(r, asked)+`"`)
		r.Want("status with its work", status, http.StatusAccepted)
		verificationtest.Equal(r, "asked with its work", asked, nil)
		r.Sleep(time.Minute)
		status, asked, _ = send(pageOfShop, `,"verification_id":"`+id+`"`)
		r.Want("status of the next", status, http.StatusAccepted)
		verificationtest.Equal(r, "asked for the next", asked, nil)
		r.Sleep(time.Second)
		r.WantMails(2)
	})
}
