package sms_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/sms/smstest"
)

func aliyunVerifyRig() smstest.Rig {
	failure := func(status int, code, message string) smstest.Answer {
		return smstest.Reply(status, `{"Code":"`+code+`","Message":"`+message+`","Success":false,"RequestId":"R-1"}`)
	}
	limit := func(code, what string, hold time.Duration) smstest.Outcome {
		return smstest.Case(failure(200, code, what), delivery.Rejected, sms.ReasonCarrierLimit, hold)
	}
	return smstest.Rig{
		Name: "aliyun-verify", ID: "112231421412414124123^4",
		Accepted: smstest.Reply(200, `{"AccessDeniedDetail":"无","Code":"OK","Message":"成功","Success":true,`+
			`"Model":{"VerifyCode":"4232","RequestId":"a3671ccf","OutId":"1","BizId":"112231421412414124123^4"}}`),
		Make: func(t *testing.T, endpoint string) sms.Carrier {
			return sms.AliyunVerify{
				Account: sms.Account{
					KeyID: "LTAI5tExample", Sign: "速通互联验证码", Params: []string{"code", "minutes"},
					Templates: sms.ApprovedTemplates{"default": {"zh-Hans": "100001"}, "login": {"zh-Hans": "100002"}},
				},
				Endpoint: endpoint,
			}.Open(sms.Setup{Name: "aliyun-verify", Secret: smstest.Private, Now: func() time.Time { return smstest.SignedAt }})
		},
		Check: func(r *http.Request, body string) error {
			return errors.Join(checkACS3(r, body), smstest.Want(
				[]string{r.Method, r.URL.Path, r.Header.Get("X-Acs-Action"), r.Header.Get("X-Acs-Version"), fmt.Sprint(r.URL.Query())},
				"POST", "/", "SendSmsVerifyCode", "2017-05-25", fmt.Sprint(map[string][]string{
					"CountryCode": {"86"}, "PhoneNumber": {"13812345678"}, "SignName": {"速通互联验证码"}, "TemplateCode": {"100002"},
					"TemplateParam": {`{"code":"739154","min":"9"}`}, "OutId": {smstest.Sample().ID},
				})))
		},
		Cases: map[string]smstest.Outcome{
			"within their interval": limit("biz.FREQUENCY", "check frequency failed", time.Minute),
			"a minute's limit":      limit("isv.BUSINESS_LIMIT_CONTROL", "触发分钟级流控Permits:1", time.Minute),
			"an hour's limit":       limit("isv.BUSINESS_LIMIT_CONTROL", "触发小时级流控Permits:5", time.Hour),
			"a day's limit":         limit("isv.BUSINESS_LIMIT_CONTROL", "触发天级流控Permits:10", 24*time.Hour),
			"invalid number":        smstest.Case(failure(200, "isv.MOBILE_NUMBER_ILLEGAL", ""), delivery.Rejected, "", 0),
			"their signature":       smstest.Case(failure(200, "isv.SMS_SIGNATURE_ILLEGAL", ""), delivery.Temporary, "", 0),
			"their template":        smstest.Case(failure(200, "isv.SMS_TEMPLATE_ILLEGAL", ""), delivery.Temporary, "", 0),
			"its parameters":        smstest.Case(failure(200, "isv.TEMPLATE_PARAMS_ILLEGAL", ""), delivery.Temporary, "", 0),
			"our balance":           smstest.Case(failure(200, "isv.AMOUNT_NOT_ENOUGH", ""), delivery.Temporary, "", 0),
			"our permission":        smstest.Case(failure(403, "NoPermission", ""), delivery.Temporary, "", 0),
			"our key":               smstest.Case(failure(404, "InvalidAccessKeyId.NotFound", ""), delivery.Temporary, "", 0),
			"throttled":             smstest.Case(failure(400, "Throttling.User", ""), delivery.Temporary, "", 0),
			"a new code":            smstest.PerNumber(failure(200, "biz.NEW", "")),
			"OK without success":    smstest.PerNumber(failure(200, "OK", "")),
			"OK beside a 400":       smstest.PerNumber(smstest.Reply(400, `{"Code":"OK","Success":true}`)),
			"their error":           smstest.Case(failure(200, "isp.SYSTEM_ERROR", ""), delivery.Unknown, "", 0),
			"their error, by 500":   smstest.Case(failure(500, "OK", ""), delivery.Unknown, "", 0),
			"no code":               smstest.Case(smstest.Reply(200, `{"Success":true,"Model":{"BizId":"1"}}`), delivery.Unknown, "", 0),
		},
	}
}

func TestAliyunVerifyContract(t *testing.T) { smstest.Contract(t, aliyunVerifyRig()) }

// For a number outside of mainland China, and for a code whose minutes are not known, no request is
// made, and the next carrier gets the message.
func TestAliyunVerifyTakesMainlandNumbersAlone(t *testing.T) {
	c := aliyunVerifyRig().Make(t, "https://127.0.0.1:1")
	for _, m := range []sms.Message{
		{To: "+85261234567", Country: "HK", Code: "1", Minutes: 5},
		{To: "+8613812345678", Country: "CN", Code: "1"},
	} {
		if _, fail := c.Send(t.Context(), m); fail == nil || fail.Stage != delivery.StagePrepare || fail.Elsewhere != (m.Country == "HK") {
			t.Errorf("%s: %+v", m.Country, fail)
		}
	}
	if (sms.AliyunVerify{}).CanBePolled() {
		t.Error("it is polled")
	}
}

func TestAliyunVerifyProbe(t *testing.T) {
	check := func(r *http.Request, body string) error {
		q := r.URL.Query()
		return errors.Join(checkACS3(r, body),
			smstest.Want([]string{r.Header.Get("X-Acs-Action"), q.Get("PhoneNumber"), q.Get("VerifyCode")},
				"CheckSmsVerifyCode", "13800000000", "000000"))
	}
	for _, c := range []struct {
		answer smstest.Answer
		want   string
	}{
		{smstest.Reply(200, `{"Code":"OK","Success":true,"Model":{"VerifyResult":"UNKNOWN"}}`), ""},
		{smstest.Reply(200, `{"Code":"isv.MOBILE_NUMBER_ILLEGAL","Success":false}`), ""},
		{smstest.Reply(404, `{"Code":"InvalidAccessKeyId.NotFound","Message":"`+smstest.Private+`"}`), sms.ErrLogin.Error()},
		{
			smstest.Reply(403, `{"Code":"NoPermission","Message":"`+smstest.Private+`"}`),
			"the carrier accepts the login but refuses the request: NoPermission",
		},
		{smstest.Reply(200, smstest.Private), sms.ErrUndocumentedAnswer.Error()},
	} {
		r := aliyunVerifyRig()
		r.Check = check
		got, err := sms.Probe(t.Context(), r.Make(t, smstest.NewFake(t, r, smstest.Says(c.answer)).URL))
		if err == nil && c.want != "" || err != nil && err.Error() != "127.0.0.1: "+c.want {
			t.Errorf("%q, %v; want %q", got, err, c.want)
		}
	}
}
