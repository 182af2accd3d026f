package vendors

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/verify/humancheck"
)

// dialect says how one vendor differs from the others. All vendors use the request form of
// reCAPTCHA's siteverify. A service of the operator, which is configured by its URL, gets another
// form (ownRequest).
type dialect struct {
	// URL of the check, if the settings give none; empty for the operator's service
	url           string
	takesSiteKey  bool // the vendor gets the site key, and refuses the tokens of other sites
	returnsAction bool // an answer that passes names the action
	bindsHost     bool // the vendor's site keys work only on the hosts that are listed at the vendor
	testToken     string
}

// dialects are by the vendor's name in the settings. Sources:
// developers.cloudflare.com/turnstile/get-started/server-side-validation, docs.hcaptcha.com,
// developers.google.com/recaptcha/docs/verify.
var dialects = map[string]dialect{
	"turnstile": {"https://challenges.cloudflare.com/turnstile/v0/siteverify", false, true, true, "XXXX.DUMMY.TOKEN.XXXX"},
	"hcaptcha":  {"https://api.hcaptcha.com/siteverify", true, false, true, "10000000-aaaa-bbbb-cccc-000000000001"},
	"recaptcha": {"https://www.google.com/recaptcha/api/siteverify", false, false, false, ""},
	"http":      {},
}

const missing = "is missing"

func formRequest(c Config, q humancheck.VendorQuery) providerhttp.Request {
	form := url.Values{"secret": {c.Secret}, "response": {q.Token}}
	if dialects[c.By].takesSiteKey {
		form.Set("sitekey", c.SiteKey)
	}
	if q.ClientIP != "" {
		form.Set("remoteip", q.ClientIP)
	}
	return providerhttp.Request{
		Method: http.MethodPost, URL: c.URL, Body: []byte(form.Encode()),
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	}
}

// ownRequest is for the operator's own service.
func ownRequest(c Config, q humancheck.VendorQuery) providerhttp.Request {
	fields := map[string]string{"token": q.Token, "app": q.App, "action": action}
	if q.ClientIP != "" {
		fields["ip"] = q.ClientIP
	}
	body, _ := json.Marshal(fields) // texts always encode
	return providerhttp.Request{
		Method: http.MethodPost, URL: c.URL, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + c.Secret}},
	}
}

// These are problems with a vendor, for operators.
const (
	errSecret       = delivery.SafeError("refuses the secret")
	errSiteKey      = delivery.SafeError("does not know the site key, or the secret belongs to another one; reCAPTCHA needs a key of version 2")
	errTimeout      = delivery.SafeError("does not answer within 3 s")
	errUnreachable  = delivery.SafeError("cannot be reached")
	errBroken       = delivery.SafeError("the connection broke before the whole answer had come")
	errInternal     = delivery.SafeError("has an internal error")
	errTooMany      = delivery.SafeError("gets too many requests and answers 429")
	errElsewhere    = delivery.SafeError("the URL redirects elsewhere, and redirects are not followed: give the final URL")
	errUndocumented = delivery.SafeError("does not answer as its documentation says: is the URL right?")
)

type answer struct {
	result    humancheck.Result
	suspicion error // what may be wrong with the vendor or the settings; nil: nothing
	certain   bool  // the suspicion is right, because no token can cause this answer
}

var (
	away     = humancheck.Result{Away: true}
	rejected = refused(humancheck.Rejected)
)

func refused(r humancheck.Reason) answer { return answer{result: humancheck.Result{Reason: r}} }

func faulty(why error) answer { return answer{away, why, true} }

// unjudged returns an answer that doesn't judge the token. why is the suspected fault of the vendor
// or of the settings; it isn't certain, because the token may have caused the answer.
func unjudged(why error) answer { return answer{away, why, false} }

// suspect rejects the token, and has a probe look for a fault.
func suspect(why error) answer { return answer{rejected.result, why, false} }

// unanswered is for requests without a whole response.
func unanswered(fail *delivery.Error) answer {
	switch {
	case errors.Is(fail, os.ErrDeadlineExceeded):
		return faulty(errTimeout)
	case fail.Class == delivery.Temporary:
		return faulty(errUnreachable)
	case fail.Status != 0: // the answer is too long
		return suspect(errUndocumented)
	}
	return unjudged(errBroken)
}

// byCode has the answers by the vendors' error codes. Any other code is a rejection, for example
// bad-request, which a malformed token causes, and not-using-dummy-passcode, which hCaptcha's
// published test token causes. sitekey-secret-mismatch proves no fault of the settings, because the
// token of another site causes it, too.
var byCode = map[string]answer{
	"timeout-or-duplicate": refused(humancheck.Used), "already-seen-response": refused(humancheck.Used),
	"invalid-or-already-seen-response": refused(humancheck.Used), "expired-input-response": refused(humancheck.Expired),
	"missing-input-secret": faulty(errSecret), "invalid-input-secret": faulty(errSecret), "sitekey-secret-mismatch": suspect(errSiteKey),
	"internal-error": unjudged(errInternal),
}

// byStatus has the answers of the operator's own service. A 400 means that it can't read the token.
var byStatus = map[int]answer{http.StatusBadRequest: rejected, http.StatusUnauthorized: faulty(errSecret)}

// reply has the fields of all vendors' answers. encoding/json matches names in any case.
type reply struct {
	Success          *bool
	Passed           *bool // only answers of the operator's own URL have it
	Hostname, Action string
	Score            *float64 // only in reCAPTCHA v3, whose answers about robots are successes, too
	ErrorCodes       []string `json:"error-codes"`
}

func (d dialect) judge(c Config, r providerhttp.Response) answer {
	var body reply
	unreadable := json.Unmarshal(r.Body, &body) != nil
	own, passed := c.By == "http", body.Success
	if own {
		passed = body.Passed
	}
	known, listed := byStatus[r.Status]
	switch {
	case r.Status >= 500:
		return faulty(delivery.SafeError("answers " + strconv.Itoa(r.Status)))
	case r.Status == http.StatusTooManyRequests:
		return unjudged(errTooMany)
	case r.Status/100 == 3:
		return suspect(errElsewhere)
	case own && listed:
		return known
	case unreadable || passed == nil || own && r.Status != http.StatusOK:
		return suspect(errUndocumented)
	case body.Score != nil:
		return suspect(errSiteKey)
	case !*passed || r.Status >= 300:
		for _, code := range body.ErrorCodes {
			if a, known := byCode[code]; known {
				return a
			}
		}
		return rejected
	case !own && c.refusesHost(body.Hostname):
		return answer{result: humancheck.Result{Reason: humancheck.OtherHost, Host: body.Hostname}}
	case d.returnsAction && body.Action != action:
		return rejected
	}
	return answer{result: humancheck.Result{Passed: true}}
}

// unknownHosts has the values that vendors return in place of a host that is unknown (reCAPTCHA in
// apps) or not disclosed (hCaptcha under unusual load).
var unknownHosts = []string{"", "not-provided"}

// refusesHost reports whether a token was made on a host that is not in Hostnames. It never refuses
// an unknown host. A vendor that binds its site keys to hosts has compared the host already. Then
// refusesHost compares it again only if the operator has configured Hostnames.
func (c Config) refusesHost(host string) bool {
	if slices.Contains(unknownHosts, host) || dialects[c.By].bindsHost && !c.OwnHostnames {
		return false
	}
	return !slices.ContainsFunc(c.Hostnames, func(own string) bool { return strings.EqualFold(own, host) })
}
