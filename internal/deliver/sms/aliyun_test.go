package sms_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/sms/smstest"
	"sendcode/internal/kit/servertest"
)

// The example comes from the vendor's page on the signature
// (help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature).
func TestACS3AsDocumented(t *testing.T) {
	query := sms.CanonicalQuery(map[string]string{
		"ImageId":  "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd",
		"RegionId": "cn-shanghai",
	})
	got := sms.ACS3Authorization("YourAccessKeyId", "YourAccessKeySecret", "POST", query, map[string]string{
		"host": "ecs.cn-shanghai.aliyuncs.com", "x-acs-action": "RunInstances", "x-acs-version": "2014-05-26",
		"x-acs-date": "2023-10-26T10:22:32Z", "x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d",
		"x-acs-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	})
	const want = "ACS3-HMAC-SHA256 Credential=YourAccessKeyId," +
		"SignedHeaders=host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;x-acs-version," +
		"Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
	servertest.Same(t, "the authorization", got, want)
	if q := sms.CanonicalQuery(map[string]string{"b": "a b*c~d/e+", "a": "码"}); q != "a=%E7%A0%81&b=a%20b%2Ac~d%2Fe%2B" {
		t.Errorf("%s", q)
	}
}

// checkACS3 checks a signature as the vendor does: it signs the received request again.
func checkACS3(r *http.Request, body string) error {
	signed := smstest.Signed(r)
	for _, needed := range []string{
		"host", "x-acs-action", "x-acs-version", "x-acs-date", "x-acs-signature-nonce",
		"x-acs-content-sha256",
	} {
		if signed[needed] == "" {
			return fmt.Errorf("%s is not signed, only %v", needed, signed)
		}
	}
	return smstest.Want([]string{signed["x-acs-content-sha256"], signed["x-acs-date"], r.Header.Get("Authorization")},
		providerhttp.HexSHA256(body), smstest.SignedAt.UTC().Format("2006-01-02T15:04:05Z"),
		sms.ACS3Authorization("LTAI5tExample", smstest.Private, r.Method, r.URL.RawQuery, signed))
}

func aliyunRig() smstest.Rig {
	failure := func(status int, code, message string) smstest.Answer {
		return smstest.Reply(status, `{"Code":"`+code+`","Message":"`+message+`","RequestId":"R-1"}`)
	}
	limit := func(what string, hold time.Duration) smstest.Outcome {
		return smstest.Case(failure(200, "isv.BUSINESS_LIMIT_CONTROL", what), delivery.Rejected, sms.ReasonCarrierLimit, hold)
	}
	return smstest.Rig{
		Name: "aliyun", ID: "900619746936498440^0",
		Accepted: smstest.Reply(200, `{"Code":"OK","Message":"OK","BizId":"900619746936498440^0","RequestId":"F655A8D5"}`),
		Make: func(t *testing.T, endpoint string) sms.Carrier {
			return sms.Aliyun{
				Account: sms.Account{
					KeyID: "LTAI5tExample", Sign: "商店", Params: []string{"code", "minutes"},
					Templates: sms.ApprovedTemplates{"default": {"zh-Hans": "SMS_1", "en": "SMS_2"}, "login": {"zh-Hans": "SMS_3"}},
				},
				Endpoint: endpoint,
			}.Open(sms.Setup{Name: "aliyun", Secret: smstest.Private, Now: func() time.Time { return smstest.SignedAt }})
		},
		Check: func(r *http.Request, body string) error {
			q := r.URL.Query()
			return errors.Join(checkACS3(r, body), smstest.Want(
				[]string{
					r.Method, r.URL.Path, r.Header.Get("x-acs-action"), r.Header.Get("x-acs-version"),
					q.Get("PhoneNumbers"), q.Get("SignName"), q.Get("TemplateCode"), q.Get("TemplateParam"), q.Get("OutId"),
				},
				"POST", "/", "SendSms", "2017-05-25", "13812345678", "商店", "SMS_3", `{"code":"739154","minutes":"9"}`,
				smstest.Sample().ID))
		},
		Cases: map[string]smstest.Outcome{
			"invalid number":           smstest.Case(failure(200, "isv.MOBILE_NUMBER_ILLEGAL", "+8613812345678"), delivery.Rejected, "", 0),
			"a minute's limit":         limit("触发分钟级流控Permits:1", time.Minute),
			"the number's limit":       limit("触发号码天级流控Permits:40", 24*time.Hour),
			"a limit in other words":   limit("flow control", time.Hour),
			"our balance":              smstest.Case(failure(200, "isv.AMOUNT_NOT_ENOUGH", ""), delivery.Temporary, "", 0),
			"no route":                 smstest.PerNumber(failure(200, "isv.DOMESTIC_NUMBER_NOT_SUPPORTED", "")),
			"throttled":                smstest.Case(failure(400, "Throttling.User", ""), delivery.Temporary, "", 0),
			"away, with a new code":    smstest.Case(failure(503, "Busy", ""), delivery.Temporary, "", 0),
			"a new code":               smstest.PerNumber(failure(200, "isv.NEW", "")),
			"opted out":                smstest.Case(failure(200, "isv.CUSTOMER_REFUSED", ""), delivery.Rejected, sms.ReasonOptedOut, 0),
			"our signature":            smstest.Case(failure(200, "isv.SIGN_STATE_ILLEGAL", ""), delivery.Temporary, "", 0),
			"our permission":           smstest.Case(failure(200, "isp.RAM_PERMISSION_DENY", ""), delivery.Temporary, "", 0),
			"the text":                 smstest.Case(failure(200, "isv.SMS_CONTENT_ILLEGAL", ""), delivery.Rejected, "", 0),
			"their error, a new code":  smstest.Case(failure(200, "isp.NEW", ""), delivery.Unknown, "", 0),
			"their error":              smstest.Case(failure(200, "isp.SYSTEM_ERROR", ""), delivery.Unknown, "", 0),
			"their error, with status": smstest.Case(failure(500, "InternalError", ""), delivery.Unknown, "", 0),
			"OK beside a 400":          smstest.PerNumber(failure(400, "OK", "")),
		},
	}
}

func TestAliyunNumbers(t *testing.T) {
	for _, c := range []struct{ to, country, want string }{
		{"+8613812345678", "CN", "13812345678"},
		{"+85261234567", "HK", "85261234567"},
		{"+4915123456789", "DE", "4915123456789"},
	} {
		servertest.Same(t, c.to, sms.FormatNumber(c.to, c.country), c.want)
	}
}

func TestAliyunContract(t *testing.T) { smstest.Contract(t, aliyunRig()) }

func TestAliyunPollStatus(t *testing.T) {
	aliyunSays := func(status int, out string) string {
		return fmt.Sprintf(
			`{"Code":"OK","Message":"OK","TotalCount":2,"SmsSendDetailDTOs":{"SmsSendDetailDTO":[{"SendStatus":3,"OutId":"another"},{"SendStatus":%d,"OutId":%q,"PhoneNum":"13812345678"}]}}`, status, out)
	}
	smstest.PollContract(t, smstest.PollRig{
		Rig: aliyunRig(), ID: "900619746936498440^0",
		Check: func(r *http.Request, body string) error {
			q := r.URL.Query()
			return errors.Join(checkACS3(r, body), smstest.Want([]string{r.Header.Get("X-Acs-Action"), q.Encode()}, "QuerySendDetails",
				"BizId=900619746936498440%5E0&CurrentPage=1&PageSize=50&PhoneNumber=13812345678&SendDate=20300302"))
		},
		Delivered: aliyunSays(3, smstest.Sample().ID), Lost: aliyunSays(2, smstest.Sample().ID),
		Open:    aliyunSays(1, smstest.Sample().ID),
		None:    aliyunSays(3, "x"),
		Refusal: smstest.Reply(200, `{"Code":"isv.ACCOUNT_ABNORMAL","Message":"`+smstest.Private+`"}`),
	})
}

func TestAliyunSettings(t *testing.T) {
	approved := sms.ApprovedTemplates{"default": {"en": "SMS_1"}}
	smstest.CheckSettings(t, map[string]map[string]error{
		"key_id": sms.Aliyun{Account: sms.Account{KeyID: "a b", Sign: "s", Templates: approved}}.Check(),
		"sign":   sms.Aliyun{Account: sms.Account{KeyID: "LTAI", Templates: approved}}.Check(),
		"templates": sms.Aliyun{Account: sms.Account{
			KeyID: "LTAI", Sign: "s",
			Templates: sms.ApprovedTemplates{"login": {"en": "x"}},
		}}.Check(),
		"params": sms.Aliyun{Account: sms.Account{KeyID: "LTAI", Sign: "s", Templates: approved, Params: []string{"minutes"}}}.Check(),
	})
}

func TestAliyunProbe(t *testing.T) {
	for _, c := range []struct {
		answer smstest.Answer
		want   error
	}{
		{smstest.Reply(200, `{"Code":"OK","TemplateStatus":"1"}`), nil},
		{smstest.Reply(200, `{"Code":"OK","TemplateStatus":1}`), nil},
		{smstest.Reply(200, `{"Code":"OK","TemplateStatus":"0"}`), sms.ErrUnknownTemplate},
		{smstest.Reply(200, `{"Code":"isv.SMS_TEMPLATE_ILLEGAL","Message":"`+smstest.Private+`"}`), sms.ErrUnknownTemplate},
		{smstest.Reply(400, `{"Code":"SignatureDoesNotMatch","Message":"`+smstest.Private+`"}`), sms.ErrLogin},
		{smstest.Reply(200, smstest.Private), sms.ErrUndocumentedAnswer},
	} {
		smstest.ProbeContract(t, aliyunRig(), checkACS3, c.answer, c.want)
	}
}

func TestAliyunReceipts(t *testing.T) {
	r := smstest.ReporterOf(t, aliyunRig().Make(t, "https://dysmsapi.aliyuncs.com"))
	got, reply, err := r.ParseReports(
		sms.IncomingRequest{Body: []byte(`[{"phone_number":"13812345678","success":true,"err_code":"DELIVERED","out_id":"s1"},
		{"success":false,"out_id":"s2"},{"out_id":"s3"},{"success":true}]`)}, "")
	if err != nil || fmt.Sprint(got) != "[{s1 true } {s2 false }]" || reply != `{"code":0,"msg":"OK"}` {
		t.Errorf("%v, %q, %v", got, reply, err)
	}
	if _, _, err := r.ParseReports(sms.IncomingRequest{Body: []byte("{}")}, ""); !errors.Is(err, sms.ErrUnreadableReport) {
		t.Errorf("%v", err)
	}
}
