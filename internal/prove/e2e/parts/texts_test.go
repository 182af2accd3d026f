package parts

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// aliyun is a server that accepts verification messages as Alibaba Cloud documents it. To a message
// for the number in the constant full, it answers that the number got too many messages in a
// minute.
type aliyun struct {
	mu    sync.Mutex
	sent  []url.Values
	codes []string
}

const full = "13900000000"

func (a *aliyun) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var params struct{ Code, Min string }
	if err := json.Unmarshal([]byte(q.Get("TemplateParam")), &params); err != nil || r.Header.Get("X-Acs-Action") != "SendSmsVerifyCode" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if q.Get("PhoneNumber") == full {
		_, _ = io.WriteString(w, `{"Code":"isv.BUSINESS_LIMIT_CONTROL","Message":"触发分钟级流控Permits:1","Success":false}`)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent, a.codes = append(a.sent, q), append(a.codes, params.Code)
	_, _ = fmt.Fprintf(w, `{"Code":"OK","Success":true,"Model":{"VerifyCode":%q,"BizId":"%d^0"}}`, params.Code, len(a.sent))
}

// startAliyun starts a server, and returns the settings with which the server is the service's
// carrier.
func startAliyun(s *apptest.Stack) (carrier *aliyun, settings string) {
	carrier = &aliyun{}
	server := httptest.NewServer(carrier)
	s.Cleanup(server.Close)
	s.Env["ALIYUN_SECRET"] = "the secret of the access key"
	return carrier, "sms: {countries: [CN], carriers: [{name: verify, type: aliyun-verify, endpoint: '" + server.URL +
		"', key_id: LTAI5tExample, " +
		"secret_env: ALIYUN_SECRET, sign: 速通互联验证码, templates: {default: {zh-Hans: '100001'}}, params: [code, minutes]}]}\n"
}

// A code goes out as one of Aliyun's verification messages, in Aliyun's own text. It is sent, sent
// again, and entered. If Aliyun's limit for a phone number refuses a message, the number has to
// wait.
func verificationMessages(s *apptest.Stack, f form, carrier *aliyun) {
	last := f.replicas - 1
	ask := func(number string) apptest.Answer {
		return s.Post("/v1/verifications", `{"channel":"sms","to":"+86`+number+`","locale":"zh-CN"`+known+`}`, apptest.Patiently)
	}
	first, second := ask("13812345678"), ask("13812345678")
	for n, a := range []apptest.Answer{first, second} {
		if a.StatusCode != http.StatusAccepted || a.Send.Status != "sent" || a.ID != first.ID {
			s.Fatalf("send %d: %d %s", n+1, a.StatusCode, a.Raw)
		}
	}
	for n, q := range carrier.sent {
		if q.Get("TemplateCode") != "100001" || q.Get("SignName") != "速通互联验证码" || q.Get("CountryCode") != "86" {
			s.Errorf("message %d: %v", n+1, q)
		}
	}
	servertest.Same(s, "different codes in two messages", len(slices.Compact(slices.Clone(carrier.codes))), 1)
	check := func(code string) apptest.Answer {
		return s.Do(last, http.MethodPost, "/v1/verifications/"+first.ID+"/check", `{"code":"`+code+`"}`)
	}
	if a := check(s.Wrong(carrier.codes[0])); a.Valid {
		s.Errorf("a wrong code: %s", a.Raw)
	}
	if a := check(carrier.codes[0]); !a.Valid || a.State() != "approved" {
		s.Errorf("the right code: %s", a.Raw)
	}
	if a := ask(full); a.Send.Status != "failed" || a.Send.Reason != "carrier_limit" {
		s.Errorf("a full number: %s", a.Raw)
	}
	if a := ask(full); a.StatusCode != http.StatusTooManyRequests || a.BlockedBy != "carrier" || a.RetryAfter < 1 || a.RetryAfter > 60 {
		s.Errorf("a full number, again: %d %s", a.StatusCode, a.Raw)
	}
	if s.Logged(carrier.codes[0]) || s.Logged("13812345678") {
		s.Error("the log has the code or the number")
	}
}
