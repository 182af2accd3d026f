package vendors

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/exchange"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/verify/humancheck"
)

// dialect is how one vendor differs from the others.
type dialect struct {
	url         string // of the questions, if the settings have none
	siteKeyForm string // what is said of a wrong site key; empty: none is needed
	request     func(Config, humancheck.Question) exchange.Request
	read        func(reply, int) (clear, passed bool) // of an answer with a status; clear: it is one of the vendor's
	tellsHost   bool                                  // an answer that passes names the page's host
	tellsAction bool                                  // and the action
	testToken   string
}

// dialects are the vendors by the name in the settings. Sources: developers.cloudflare.com/turnstile/get-started/server-side-validation,
// docs.hcaptcha.com, developers.google.com/recaptcha/docs/verify, developer.friendlycaptcha.com/docs/v2/api/siteverify,
// capjs.js.org/guide/standalone, help.aliyun.com/zh/captcha/captcha2-0. With the site key hCaptcha and Friendly Captcha refuse the
// tokens of other sites.
var dialects = map[string]dialect{
	"turnstile": {
		url: "https://challenges.cloudflare.com/turnstile/v0/siteverify", siteKeyForm: missing, request: form("secret", "", "remoteip"),
		read: readSuccess, tellsHost: true, tellsAction: true, testToken: "XXXX.DUMMY.TOKEN.XXXX",
	},
	"hcaptcha": {
		url: "https://api.hcaptcha.com/siteverify", siteKeyForm: missing, request: form("secret", "sitekey", "remoteip"),
		read: readSuccess, tellsHost: true, testToken: "10000000-aaaa-bbbb-cccc-000000000001",
	},
	"recaptcha": {
		url: "https://www.google.com/recaptcha/api/siteverify", siteKeyForm: missing, request: form("secret", "", "remoteip"),
		read: readSuccess, tellsHost: true,
	},
	"friendly": {
		url: "https://global.frcapi.com/api/v2/captcha/siteverify", siteKeyForm: missing, request: form("", "sitekey", ""),
		read: readSuccess, tellsHost: true,
	},
	"cap": {
		siteKeyForm: "must be the address of the site on the instance, as https://cap.example/0123456789/", request: form("secret", "", ""),
		read: func(a reply, status int) (clear, passed bool) {
			clear, passed = readSuccess(a, status)
			return clear || a.Error != nil, passed
		},
	},
	"aliyun": {
		siteKeyForm: "must be region, prefix and scene, as cn/1a2b3c/4d5e6f; the region is cn or sgp", request: aliyunRequest,
		read: func(a reply, _ int) (clear, passed bool) {
			return a.Code != "", a.Code == "Success" && a.Result.VerifyResult
		},
	},
	"http": {request: ownRequest, read: func(a reply, status int) (clear, passed bool) {
		return status == http.StatusOK && a.Passed != nil, a.Passed != nil && *a.Passed
	}},
}

const missing = "is missing"

// siteKeyProblem reports whether a site key cannot be right.
func (d dialect) siteKeyProblem(siteKey string) bool {
	region, rest, _ := strings.Cut(siteKey, "/")
	switch {
	case strings.HasPrefix(d.siteKeyForm, "must be the address"):
		return loopback.URLProblem(siteKey) != ""
	case strings.HasPrefix(d.siteKeyForm, "must be region"):
		return aliyunURLs[region] == "" || strings.Count(rest, "/") != 1
	}
	return siteKey == "" && d.siteKeyForm != ""
}

// form returns the request that most vendors take, with the fields of the secret, the site key and the client's address. An
// empty field is not sent. Without a field for the secret it is in the header X-API-Key.
func form(secret, siteKey, ip string) func(Config, humancheck.Question) exchange.Request {
	return func(c Config, q humancheck.Question) exchange.Request {
		body, header := url.Values{"response": {q.Token}}, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
		for field, value := range map[string]string{secret: c.Secret, siteKey: c.SiteKey, ip: q.ClientIP} {
			if field != "" && value != "" {
				body.Set(field, value)
			}
		}
		if secret == "" {
			header.Set("X-API-Key", c.Secret)
		}
		return exchange.Request{Method: http.MethodPost, URL: c.URL, Header: header, Body: []byte(body.Encode())}
	}
}

// ownRequest is the question to the operator's own URL.
func ownRequest(c Config, q humancheck.Question) exchange.Request {
	fields := map[string]string{"token": q.Token, "app": q.App, "action": action}
	if q.ClientIP != "" {
		fields["ip"] = q.ClientIP
	}
	body, _ := json.Marshal(fields) // texts always encode
	return exchange.Request{
		Method: http.MethodPost, URL: c.URL, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + c.Secret}},
	}
}

// aliyunURLs are the endpoints by region.
var aliyunURLs = map[string]string{
	"cn": "https://captcha.cn-shanghai.aliyuncs.com", "sgp": "https://captcha.ap-southeast-1.aliyuncs.com",
}

// aliyunRequest is VerifyIntelligentCaptcha of CAPTCHA 2.0, signed as the other interfaces are. The token stands in the body,
// since it may be longer than a URL can be.
func aliyunRequest(c Config, q humancheck.Question) exchange.Request {
	scene := c.SiteKey[strings.LastIndex(c.SiteKey, "/")+1:]
	body := sms.CanonicalQuery(map[string]string{"CaptchaVerifyParam": q.Token, "SceneId": scene})
	id, secret, _ := strings.Cut(c.Secret, ":")
	signed := map[string]string{
		"host": exchange.Host(c.URL), "x-acs-action": "VerifyIntelligentCaptcha", "x-acs-version": "2023-03-05",
		"x-acs-date": q.Now.UTC().Format(time.RFC3339), "x-acs-signature-nonce": rand.Text(), "x-acs-content-sha256": exchange.HexSHA256(body),
		"content-type": "application/x-www-form-urlencoded",
	}
	header := http.Header{"Authorization": {sms.ACS3Authorization(id, secret, http.MethodPost, "", signed)}, "Accept": {"application/json"}}
	for name, value := range signed {
		if name != "host" {
			header.Set(name, value)
		}
	}
	return exchange.Request{Method: http.MethodPost, URL: strings.TrimSuffix(c.URL, "/") + "/", Header: header, Body: []byte(body)}
}

// What an operator reads of a vendor that does not work.
const (
	errSecret       = delivery.SafeError("refuses the secret")
	errSiteKey      = delivery.SafeError("does not know the site key, or not with this secret")
	errTimeout      = delivery.SafeError("no answer within 3 s")
	errUnreachable  = delivery.SafeError("cannot be reached")
	errBroken       = delivery.SafeError("the connection broke before the whole answer had come")
	errInternal     = delivery.SafeError("has an internal error")
	errTooMany      = delivery.SafeError("is asked too often (429)")
	errElsewhere    = delivery.SafeError("the URL points elsewhere, which is not followed: give the final URL")
	errUndocumented = delivery.SafeError("answers something else than is documented: is the URL right?")
)

// answer is what became of a question.
type answer struct {
	verdict   humancheck.Verdict
	suspicion error // what is wrong with the vendor or the settings if a token of ours caused the answer; nil: nothing
	certain   bool  // no token can cause the answer: the suspicion is a fault
}

var (
	away     = humancheck.Verdict{Away: true}
	rejected = refused(humancheck.Rejected)
)

func refused(r humancheck.Reason) answer { return answer{verdict: humancheck.Verdict{Reason: r}} }

func faulty(why error) answer { return answer{away, why, true} }

// unjudged is no verdict on the token, which may have caused the answer.
func unjudged(why error) answer { return answer{away, why, false} }

// suspect is a rejection that a probe has to look at.
func suspect(why error) answer { return answer{rejected.verdict, why, false} }

// unanswered is the answer if no whole response came.
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

// byCode has the answers by the vendors' codes; others are rejections. bad-request and not-using-dummy-passcode are rejections too: the
// first comes of a malformed token, the second of the test token that hCaptcha has published. The mismatches come of another site's token.
var byCode = map[string]answer{
	"timeout-or-duplicate": refused(humancheck.Used), "already-seen-response": refused(humancheck.Used), "response_duplicate": refused(humancheck.Used),
	"invalid-or-already-seen-response": refused(humancheck.Used), "F008": refused(humancheck.Used), "F018": refused(humancheck.Used),
	"expired-input-response": refused(humancheck.Expired), "response_timeout": refused(humancheck.Expired), "F019": refused(humancheck.Expired),
	"missing-input-secret": faulty(errSecret), "invalid-input-secret": faulty(errSecret), "auth_required": faulty(errSecret),
	"auth_invalid": faulty(errSecret), "sitekey_invalid": faulty(errSiteKey), "InvalidAccessKeyId": faulty(errSecret),
	"SignatureDoesNotMatch": faulty(errSecret), "IncompleteSignature": faulty(errSecret), "sitekey-secret-mismatch": suspect(errSiteKey),
	"F005": suspect(errSiteKey), "F006": suspect(errSiteKey), "NoPermission": suspect(errSecret), "Forbidden": suspect(errSecret),
	"InvalidAction": suspect(errUndocumented), "internal-error": unjudged(errInternal), "Throttling": unjudged(errTooMany),
}

// byStatus has the answers by a vendor and the status. Cap's 404 is of an unknown token, its 403 of an expired token or a wrong
// secret: the token of a probe cannot expire. A 400 of the operator's own URL is of a token that it cannot read.
var byStatus = map[string]answer{"cap 403": suspect(errSecret), "http 400": rejected, "http 401": faulty(errSecret)}

// reply has the fields of all vendors' answers; names match in any case.
type reply struct {
	Success, Passed        *bool
	Hostname, Action, Code string
	Score                  *float64        // of reCAPTCHA v3
	ErrorCodes             []string        `json:"error-codes"`
	Error                  json.RawMessage // of Friendly Captcha an object, of Cap a text
	Data                   struct{ Challenge struct{ Origin string } }
	Result                 struct {
		VerifyResult bool
		VerifyCode   string
	}
}

func readSuccess(a reply, _ int) (clear, passed bool) {
	return a.Success != nil, a.Success != nil && *a.Success
}

// codes returns the codes of an answer.
func (a reply) codes() []string {
	var named struct {
		Code string `json:"error_code"`
	}
	_ = json.Unmarshal(a.Error, &named) // an error that is no object has no code
	family, _, _ := strings.Cut(a.Code, ".")
	return append(a.ErrorCodes, named.Code, family, a.Result.VerifyCode)
}

// judge tells what a response means.
func (d dialect) judge(c Config, r exchange.Response) answer {
	var said reply
	unreadable := json.Unmarshal(r.Body, &said) != nil
	clear, passed := d.read(said, r.Status)
	known, listed := byStatus[c.By+" "+strconv.Itoa(r.Status)]
	switch {
	case r.Status >= 500:
		return faulty(delivery.SafeError("answers " + strconv.Itoa(r.Status)))
	case r.Status == http.StatusTooManyRequests:
		return unjudged(errTooMany)
	case r.Status/100 == 3:
		return suspect(errElsewhere)
	case listed:
		return known
	case unreadable || !clear:
		return suspect(errUndocumented)
	case c.By == "cap" && strings.Contains(string(said.Error), "site key"):
		return suspect(errSiteKey)
	case !passed || r.Status >= 300:
		for _, code := range said.codes() {
			if a, known := byCode[code]; known {
				return a
			}
		}
		return rejected
	case d.tellsHost && !c.isHostname(cmp.Or(said.Hostname, said.Data.Challenge.Origin)):
		return refused(humancheck.OtherHost)
	case (d.tellsAction || c.MinScore > 0) && said.Action != action, c.By == "recaptcha" && !c.isScore(said.Score):
		return rejected
	}
	return answer{verdict: humancheck.Verdict{Passed: true}}
}

// isHostname reports whether a page's host or origin is one of those that may show the check.
func (c Config) isHostname(host string) bool {
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		host = u.Hostname()
	}
	return slices.ContainsFunc(c.Hostnames, func(own string) bool { return strings.EqualFold(own, host) })
}

// isScore reports whether a score is enough. A site key of v3 has one also if the settings have no least score: then it must
// be 0.5, since v3 calls its answers about robots successes too.
func (c Config) isScore(score *float64) bool {
	if score == nil {
		return c.MinScore == 0
	}
	return *score >= cmp.Or(c.MinScore, 0.5)
}
