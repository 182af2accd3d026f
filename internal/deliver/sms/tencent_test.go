package sms_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/sms/smstest"
	"sendcode/internal/kit/servertest"
)

// The examples come from the vendor (cloud.tencent.com/document/api/382/52072). The example with a
// body does not publish its whole key, so the test compares only its hash of the body. Of the other
// example, the test compares the whole header.
func TestTC3AsDocumented(t *testing.T) {
	const body = `{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}`
	servertest.Same(t, "the body's hash", providerhttp.HexSHA256(body), "35e9c5b0e3ae67532d3c9f17ead6c90222632e5b1ff7f6e89887f1398934f064")
	got := sms.TC3Authorization("AKIDEXAMPLE", "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE", "cvm", time.Unix(1539084154, 0), "GET",
		"Limit=10&Offset=0", map[string]string{
			"content-type": "application/x-www-form-urlencoded", "host": "cvm.tencentcloudapi.com",
		}, "")
	const want = "TC3-HMAC-SHA256 Credential=AKIDEXAMPLE/2018-10-09/cvm/tc3_request, SignedHeaders=content-type;host, " +
		"Signature=5da7a33f6993f0614b047e5df4582db9e9bf4672ba50567dba16c6ccf174c474"
	servertest.Same(t, "the authorization", got, want)
}

// checkTC3 checks a signature as the vendor does: it signs the received request again.
func checkTC3(r *http.Request, body string) error {
	signed := smstest.Signed(r)
	if signed["content-type"] == "" {
		return fmt.Errorf("only %v are signed", signed)
	}
	if _, ok := signed["x-tc-action"]; ok {
		signed["x-tc-action"] = strings.ToLower(r.Header.Get("X-TC-Action"))
	}
	want := sms.TC3Authorization("AKIDexample", smstest.Private, "sms", smstest.SignedAt, r.Method, r.URL.RawQuery, signed, body)
	return smstest.Want([]string{r.Header.Get("X-TC-Timestamp"), r.Header.Get("Authorization")},
		strconv.FormatInt(smstest.SignedAt.Unix(), 10), want)
}

func tencentRig() smstest.Rig {
	status := func(code string) smstest.Answer {
		return smstest.Reply(200, `{"Response":{"SendStatusSet":[{"SerialNo":"","PhoneNumber":"+8613812345678","Code":"`+code+
			`","Message":"739154"}],"RequestId":"r"}}`)
	}
	failure := func(code string) smstest.Answer {
		return smstest.Reply(200, `{"Response":{"Error":{"Code":"`+code+`","Message":"`+smstest.Private+
			`"},"RequestId":"r"}}`)
	}
	limit := func(code string, hold time.Duration) smstest.Outcome {
		return smstest.Case(status(code), delivery.Rejected, sms.ReasonCarrierLimit, hold)
	}
	return smstest.Rig{
		Name: "tencent", ID: "5000:1045710669157053657849499619",
		Accepted: smstest.Reply(200,
			`{"Response":{"SendStatusSet":[{"SerialNo":"5000:1045710669157053657849499619","PhoneNumber":"+8613812345678","Fee":1,"SessionContext":"x","Code":"Ok","Message":"send success","IsoCode":"CN"}],"RequestId":"a0aabda6"}}`),
		Make: func(t *testing.T, endpoint string) sms.Carrier {
			return sms.Tencent{
				Account: sms.Account{
					KeyID: "AKIDexample", Sign: "商店", Params: []string{"code", "minutes"},
					Templates: sms.ApprovedTemplates{"default": {"zh-Hans": "1110"}},
				},
				App: "1400006666", Region: "ap-guangzhou", Endpoint: endpoint,
			}.Open(sms.Setup{Name: "tencent", Secret: smstest.Private, Now: func() time.Time { return smstest.SignedAt }})
		},
		Check: func(r *http.Request, body string) error {
			return errors.Join(checkTC3(r, body), smstest.Want(
				[]string{r.Header.Get("X-TC-Action"), r.Header.Get("X-TC-Version"), r.Header.Get("X-TC-Region"), body},
				"SendSms", "2021-01-11", "ap-guangzhou",
				`{"PhoneNumberSet":["+8613812345678"],"SessionContext":"`+smstest.Sample().ID+
					`","SignName":"商店","SmsSdkAppId":"1400006666","TemplateId":"1110","TemplateParamSet":["739154","9"]}`))
		},
		Cases: map[string]smstest.Outcome{
			"invalid number": smstest.Case(status("InvalidParameterValue.IncorrectPhoneNumber"), delivery.Rejected, "", 0),
			"blacklist": smstest.Case(status("FailedOperation.PhoneNumberInBlacklist"), delivery.Rejected,
				sms.ReasonOptedOut, 0),
			"thirty seconds":        limit("LimitExceeded.PhoneNumberThirtySecondLimit", 30*time.Second),
			"a day":                 limit("LimitExceeded.PhoneNumberDailyLimit", 24*time.Hour),
			"our limit":             smstest.Case(status("LimitExceeded.AppDailyLimit"), delivery.Temporary, "", 0),
			"a code of no list":     smstest.PerNumber(status("FailedOperation.New")),
			"our balance":           smstest.Case(status("FailedOperation.InsufficientBalanceInSmsPackage"), delivery.Temporary, "", 0),
			"we are in arrears":     smstest.Case(status("UnauthorizedOperation.SerivceSuspendDueToArrears"), delivery.Temporary, "", 0),
			"our clock":             smstest.Case(failure("InternalError.RequestTimeException"), delivery.Temporary, "", 0),
			"a country's limit":     smstest.PerNumber(status("LimitExceeded.AppCountryOrRegionDailyLimit")),
			"a region":              smstest.PerNumber(status("UnsupportedOperation.UnsuportedRegion")),
			"the text":              smstest.Case(status("InvalidParameter.DirtyWordFound"), delivery.Rejected, "", 0),
			"internal, a new code":  smstest.Case(failure("InternalError.New"), delivery.Unknown, "", 0),
			"their timeout":         smstest.Case(status("InternalError.Timeout"), delivery.Unknown, "", 0),
			"our signature":         smstest.Case(failure("AuthFailure.SignatureFailure"), delivery.Temporary, "", 0),
			"internal":              smstest.Case(failure("InternalError"), delivery.Unknown, "", 0),
			"it broke, with a code": smstest.Case(smstest.Reply(500, failure("X.Y").Body), delivery.Unknown, "", 0),
			"Ok beside a 400":       smstest.PerNumber(smstest.Reply(400, `{"Response":{"SendStatusSet":[{"Code":"Ok"}]}}`)),
		},
	}
}

func TestTencentContract(t *testing.T) { smstest.Contract(t, tencentRig()) }

func TestTencentPollStatus(t *testing.T) {
	tencentSays := func(status, serial string) string {
		return fmt.Sprintf(
			`{"Response":{"PullSmsSendStatusSet":[{"ReportStatus":"SUCCESS","SerialNo":"5000:1"},{"ReportStatus":%q,"SerialNo":%q,"PhoneNumber":"+8613812345678","Description":"x"}],"RequestId":"r"}}`, status, serial)
	}
	smstest.PollContract(t, smstest.PollRig{
		Rig: tencentRig(), ID: "5000:1045710669157053657849499619",
		Check: func(r *http.Request, body string) error {
			want := fmt.Sprintf(
				`{"BeginTime":%d,"EndTime":%d,"Limit":100,"Offset":0,"PhoneNumber":"+8613812345678","SmsSdkAppId":"1400006666"}`,
				smstest.AskedAt.Add(-time.Minute).Unix(), smstest.SignedAt.Unix())
			return errors.Join(checkTC3(r, body), smstest.Want([]string{r.Header.Get("X-TC-Action"), r.Header.Get("X-TC-Version"), body},
				"PullSmsSendStatusByPhoneNumber", "2021-01-11", want))
		},
		Delivered: tencentSays("SUCCESS", "5000:1045710669157053657849499619"),
		Lost:      tencentSays("FAIL", "5000:1045710669157053657849499619"),
		Open:      `{"Response":{"PullSmsSendStatusSet":[],"RequestId":"r"}}`, None: tencentSays("SUCCESS", "5000:2"),
		Refusal: smstest.Reply(200, `{"Response":{"Error":{"Code":"AuthFailure.SignatureFailure","Message":"`+
			smstest.Private+
			`"},"RequestId":"r"}}`),
	})
}

func TestTencentSettings(t *testing.T) {
	approved := sms.ApprovedTemplates{"default": {"en": "1"}}
	smstest.CheckSettings(t, map[string]map[string]error{
		"app":    sms.Tencent{Account: sms.Account{KeyID: "AKID", Templates: approved}}.Check(),
		"region": sms.Tencent{Account: sms.Account{KeyID: "AKID", Templates: approved}, App: "1400006666", Region: "x"}.Check(),
		"params": sms.Tencent{
			Account: sms.Account{KeyID: "AKID", Templates: approved, Params: []string{"code", "name"}},
			App:     "1400006666",
		}.Check(),
	})
}

func TestTencentProbe(t *testing.T) {
	templates := func(status int) string {
		return fmt.Sprintf(`{"Response":{"DescribeTemplateStatusSet":[{"TemplateId":1110,"StatusCode":%d}],"RequestId":"r"}}`, status)
	}
	for _, c := range []struct {
		answer smstest.Answer
		want   error
	}{
		{smstest.Reply(200, templates(0)), nil},
		{smstest.Reply(200, templates(1)), sms.ErrUnknownTemplate},
		{smstest.Reply(200, `{"Response":{"DescribeTemplateStatusSet":[]}}`), sms.ErrUnknownTemplate},
		{smstest.Reply(200, `{"Response":{"Error":{"Code":"AuthFailure.SecretIdNotFound","Message":"`+smstest.Private+
			`"}}}`), sms.ErrLogin},
		{smstest.Reply(200, "<html>"), sms.ErrUndocumentedAnswer},
	} {
		smstest.ProbeContract(t, tencentRig(), checkTC3, c.answer, c.want)
	}
}

// Tencent's reports have its own ID, in lists (as in the vendor's example). The answer tells
// Tencent that the report was accepted.
func TestTencentReceipts(t *testing.T) {
	r := smstest.ReporterOf(t, tencentRig().Make(t, "https://sms.tencentcloudapi.com"))
	got, reply, err := r.ParseReports(
		sms.IncomingRequest{Body: []byte(
			`[{"user_receive_time":"2015-10-17 08:03:04","nationcode":"86","mobile":"13812345678","report_status":"SUCCESS","errmsg":"DELIVRD","description":"x","sid":"5000:1"},
		{"report_status":"FAIL","errmsg":"MK:0001","sid":"5000:2"},{"report_status":"WAIT","sid":"5000:3"},{"report_status":"SUCCESS"},{"report_status":"SUCCESS","sid":"a b"}]`)}, "")
	if err != nil || fmt.Sprint(got) != "[{ true 5000:1} { false 5000:2}]" || reply != `{"result":0,"errmsg":"OK"}` {
		t.Errorf("%v, %q, %v", got, reply, err)
	}
	for _, body := range []string{"{}", "", "sid=1"} {
		if _, _, err := r.ParseReports(sms.IncomingRequest{Body: []byte(body)}, ""); !errors.Is(err, sms.ErrUnreadableReport) {
			t.Errorf("%q: %v", body, err)
		}
	}
}
