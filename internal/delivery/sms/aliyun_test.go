package sms

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/delivery"
)

// The worked example of the vendor's page on the signature (help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature).
func TestACS3AsDocumented(t *testing.T) {
	query := canonicalQuery(map[string]string{"ImageId": "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd", "RegionId": "cn-shanghai"})
	got := signACS3("YourAccessKeyId", "YourAccessKeySecret", "POST", query, map[string]string{
		"host": "ecs.cn-shanghai.aliyuncs.com", "x-acs-action": "RunInstances", "x-acs-version": "2014-05-26",
		"x-acs-date": "2023-10-26T10:22:32Z", "x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d",
		"x-acs-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	})
	const want = "ACS3-HMAC-SHA256 Credential=YourAccessKeyId," +
		"SignedHeaders=host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;x-acs-version," +
		"Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if q := canonicalQuery(map[string]string{"b": "a b*c~d/e+", "a": "码"}); q != "a=%E7%A0%81&b=a%20b%2Ac~d%2Fe%2B" {
		t.Errorf("%s", q)
	}
}

// checkACS3 is the vendor's side: it signs again what arrived.
func checkACS3(r *http.Request, body string) error {
	var names []string
	authorization := r.Header.Get("Authorization")
	_, list, _ := strings.Cut(authorization, "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	signed := map[string]string{}
	for name := range strings.SplitSeq(list, ";") {
		names = append(names, name)
		signed[name] = r.Header.Get(name)
	}
	signed["host"] = r.Host
	for _, needed := range []string{"host", "x-acs-action", "x-acs-version", "x-acs-date", "x-acs-signature-nonce", "x-acs-content-sha256"} {
		if signed[needed] == "" {
			return fmt.Errorf("%s is not signed, only %v", needed, names)
		}
	}
	if signed["x-acs-content-sha256"] != hexSHA256(body) {
		return errors.New("the body's hash is another one")
	}
	if at, err := time.Parse(time.RFC3339, signed["x-acs-date"]); err != nil || !at.Equal(signedAt.Truncate(time.Second)) {
		return fmt.Errorf("date %q", signed["x-acs-date"])
	}
	if want := signACS3("LTAI5tExample", private, r.Method, r.URL.RawQuery, signed); authorization != want {
		return fmt.Errorf("signature %q, want %q", authorization, want)
	}
	return nil
}

var signedAt = time.Date(2026, 11, 20, 23, 59, 59, 5e8, time.FixedZone("", -7*3600))

func aliyunRig() rig {
	failure := func(status int, code, message string) said {
		return said{status, `{"Code":"` + code + `","Message":"` + message + `","RequestId":"R-1"}`}
	}
	limit := func(what string, hold time.Duration) outcome {
		return outcome{failure(200, "isv.BUSINESS_LIMIT_CONTROL", what), delivery.Rejected, ReasonLimit, hold}
	}
	return rig{
		name: "aliyun", id: "900619746936498440^0",
		taken: said{200, `{"Code":"OK","Message":"OK","BizId":"900619746936498440^0","RequestId":"F655A8D5"}`},
		make: func(t *testing.T, endpoint string) Carrier {
			return must(t)(NewAliyun(Aliyun{
				Name: "aliyun", KeyID: "LTAI5tExample", Secret: private, Sign: "商店", Endpoint: endpoint, Now: func() time.Time { return signedAt },
				Templates: Approved{"default": {"zh-Hans": "SMS_1", "en": "SMS_2"}, "login": {"zh-Hans": "SMS_3"}},
			}))
		},
		check: func(r *http.Request, body string) error {
			q := r.URL.Query()
			var params map[string]string
			if err := json.Unmarshal([]byte(q.Get("TemplateParam")), &params); err != nil {
				return err
			}
			got := []string{q.Get("PhoneNumbers"), q.Get("SignName"), q.Get("TemplateCode"), params["code"], params["minutes"], q.Get("OutId"), r.Header.Get("x-acs-action"), r.Header.Get("x-acs-version"), r.URL.Path, r.Method}
			want := []string{"13812345678", "商店", "SMS_3", "739154", "9", sample().ID, "SendSms", "2017-05-25", "/", "POST"}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("%q", got)
			}
			return checkACS3(r, body)
		},
		cases: map[string]outcome{
			"invalid number":           {failure(200, "isv.MOBILE_NUMBER_ILLEGAL", "+8613812345678"), delivery.Rejected, "", 0},
			"a minute's limit":         limit("触发分钟级流控Permits:1", time.Minute),
			"an hour's limit":          limit("触发小时级流控Permits:5", time.Hour),
			"a day's limit":            limit("触发天级流控Permits:10", 24*time.Hour),
			"the number's limit":       limit("触发号码天级流控Permits:40", 24*time.Hour),
			"a limit in other words":   limit("flow control", time.Hour),
			"our balance":              {failure(200, "isv.AMOUNT_NOT_ENOUGH", ""), delivery.Temporary, "", 0},
			"our template":             {failure(200, "isv.SMS_TEMPLATE_ILLEGAL", ""), delivery.Temporary, "", 0},
			"our signature":            {failure(400, "SignatureDoesNotMatch", "server string to sign is"), delivery.Temporary, "", 0},
			"throttled":                {failure(503, "Throttling.User", ""), delivery.Temporary, "", 0},
			"their error":              {failure(200, "isp.SYSTEM_ERROR", ""), delivery.Unknown, "", 0},
			"their error, with status": {failure(500, "InternalError", ""), delivery.Unknown, "", 0},
			"OK beside a 400":          {failure(400, "OK", ""), delivery.Temporary, "", 0},
		},
	}
}

func TestAliyunNumbers(t *testing.T) {
	for _, c := range []struct{ to, country, want string }{
		{"+8613812345678", "CN", "13812345678"}, {"+85261234567", "HK", "85261234567"}, {"+4915123456789", "DE", "4915123456789"},
	} {
		if got := aliyunNumber(Message{To: c.to, Country: c.country}); got != c.want {
			t.Errorf("%s: %s", c.to, got)
		}
	}
}

func TestApprovedTemplates(t *testing.T) {
	a := Approved{"default": {"en": "e", "zh-Hans": "z"}, "login": {"zh-Hans": "l"}}
	for _, c := range []struct{ purpose, language, want string }{
		{"login", "zh-Hans", "l"}, {"login", "en", "e"}, {"other", "zh-Hans", "z"}, {"login", "de", "e"}, {"other", "de", "e"},
	} {
		if got := a.find(c.purpose, c.language); got != c.want {
			t.Errorf("%s %s: %q", c.purpose, c.language, got)
		}
	}
	if got := (Approved{"default": {"zh-Hant": "t", "zh-Hans": "s"}}).find("x", "fr"); got != "s" {
		t.Errorf("%q", got)
	}
}
