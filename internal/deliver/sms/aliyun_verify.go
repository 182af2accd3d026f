package sms

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// AliyunVerify is an account for verification messages through Alibaba Cloud's Phone Number
// Verification Service, interface Dypnsapi 2017-05-25
// (help.aliyun.com/zh/pnvs/developer-reference/api-dypnsapi-2017-05-25-sendsmsverifycode). Aliyun
// provides the signatures and templates, and the messages contain our code. The interface reaches
// only numbers of mainland China.
type AliyunVerify struct {
	Account `yaml:",inline"`
	// The base URL, for tests.
	Endpoint string `yaml:"endpoint" default:"https://dypnsapi.aliyuncs.com"`
}

type aliyunVerifyCarrier struct{ aliyunAPI }

func (a AliyunVerify) Check() map[string]error { return checkAliyun(a.Account, a.Endpoint) }

// CanBePolled returns false, because the interface documents receipts but no polls.
func (a AliyunVerify) CanBePolled() bool { return false }

func (a AliyunVerify) OnlyPrefixes() []string { return []string{"+86"} }

func (a AliyunVerify) Open(s Setup) Carrier {
	return &aliyunVerifyCarrier{aliyunAPI{a.Account, a.Endpoint, NewClient(s)}}
}

// Send implements Carrier. The template gets our code, so Aliyun neither makes nor checks a code.
func (c *aliyunVerifyCarrier) Send(ctx context.Context, m Message) (delivery.Result, *delivery.Error) {
	if m.Country != "CN" {
		return delivery.Result{}, &delivery.Error{
			Class: delivery.Rejected, Stage: delivery.StagePrepare, About: delivery.AboutUs, Elsewhere: true,
			Err: errNotMainland,
		}
	}
	template, values, fail := c.Template(m)
	if fail != nil {
		return delivery.Result{}, fail
	}
	names := slices.Clone(c.Params)
	if i := slices.Index(names, paramMinutes); i >= 0 {
		names[i] = "min"
	}
	return c.Attempt(ctx, c.signedRequest("SendSmsVerifyCode", map[string]string{
		"CountryCode": "86", "PhoneNumber": FormatNumber(m.To, m.Country), "SignName": c.Sign, "TemplateCode": template,
		"TemplateParam": fillTemplate(names, values),
		"OutId":         m.ID,
	}), parseAliyunAnswer)
}

const errNotMainland = delivery.SafeError("the carrier takes numbers of mainland China only")

// Probe checks a code that was never sent, which is free
// (help.aliyun.com/zh/pnvs/developer-reference/api-dypnsapi-2017-05-25-checksmsverifycode). No
// request shows whether the templates exist.
func (c *aliyunVerifyCarrier) Probe(ctx context.Context) (string, error) {
	a, fail := c.Do(ctx, c.signedRequest("CheckSmsVerifyCode", map[string]string{
		"CountryCode": "86", "PhoneNumber": "13800000000", "VerifyCode": "000000",
	}))
	if fail != nil {
		return "", fail
	}
	var answer aliyunAnswer
	switch err := json.Unmarshal(a.Body, &answer); {
	case err != nil || answer.Code == "":
		return "", ErrUndocumentedAnswer
	case answer.loginRefused():
		return "", ErrLogin
	case answer.Code != "OK" && aliyunMeanings[answer.Code] != MeaningBadNumber && aliyunMeanings[answer.Code] != MeaningRejected:
		return "", fmt.Errorf("%w: %s", errRefused, providerhttp.SafeErrorCode(answer.Code))
	}
	return ", and takes the login; only a message shows whether it knows the signature and the templates", nil
}

const errRefused = delivery.SafeError("the carrier accepts the login but refuses the request")
