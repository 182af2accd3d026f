package mailapitest

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailapi"
)

// The access key of the account, as AWS's examples have it.
const (
	sesKeyID  = "AKIAIOSFODNN7EXAMPLE"
	sesSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)

// ses is Amazon SES, API v2 (docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html).
func ses() Rig {
	fails := func(status int, code string) Said {
		return Said{
			Status: status, Header: http.Header{"X-Amzn-Errortype": {code + ":http://internal.amazon.com/"}},
			Body: `{"message":"Email address ada.lovelace@example.org is not verified."}`,
		}
	}
	return Rig{
		Scheme: "ses", User: url.UserPassword(sesKeyID, sesSecret), Read: readSES,
		Parameters: url.Values{"region": {"eu-west-1"}, "configuration_set": {"codes"}},
		Accepted:   Said{Status: 200, Body: `{"MessageId":"010001903c9e5f8a-d1c3-4b2a-000000"}`},
		Refused:    fails(400, "MessageRejected"), Later: fails(429, "TooManyRequestsException"),
		Outcomes: map[string]Outcome{
			"a field is wrong": {fails(400, "BadRequestException"), delivery.Rejected, "BadRequestException"},
			"the domain is not ours": {
				fails(400, "MailFromDomainNotVerifiedException"), delivery.Temporary,
				"MailFromDomainNotVerifiedException",
			},
			"the account may not":    {fails(400, "AccountSuspendedException"), delivery.Temporary, "AccountSuspendedException"},
			"sending is paused":      {fails(400, "SendingPausedException"), delivery.Temporary, "SendingPausedException"},
			"too fast":               {fails(400, "ThrottlingException"), delivery.Temporary, "ThrottlingException"},
			"the signature is wrong": {fails(403, "InvalidSignatureException"), delivery.Temporary, "InvalidSignatureException"},
			"a code in the body": {Said{
				Status: 400,
				Body:   `{"__type":"com.amazonaws.ses.v2#AccountSuspendedException"}`,
			}, delivery.Temporary, "AccountSuspendedException"},
			"it broke": {fails(500, "InternalFailure"), delivery.Unknown, "InternalFailure"},
		},
		Probe: "GET /v2/email/account",
		Good:  []Said{{Status: 200, Body: `{"SendingEnabled":true}`}, fails(403, "AccessDeniedException")},
		Bad:   fails(403, "InvalidSignatureException"),
	}
}

// readSES reads a request as SES does: it signs again what arrived.
func readSES(r *http.Request, body []byte) (Mail, error) {
	var m struct {
		FromEmailAddress, ConfigurationSetName string
		Destination                            struct{ ToAddresses []string }
		Content                                struct{ Raw struct{ Data []byte } }
		EmailTags                              []struct{ Name, Value string }
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return Mail{}, err
	}
	if len(m.Destination.ToAddresses) != 1 || len(m.EmailTags) != 1 {
		return Mail{}, errors.New("not one recipient and one tag")
	}
	signed := map[string]string{"content-type": r.Header.Get("Content-Type"), "host": r.Host, "x-amz-date": r.Header.Get("X-Amz-Date")}
	at, err := time.Parse("20060102T150405Z", signed["x-amz-date"])
	if err != nil {
		return Mail{}, err
	}
	authorization := mailapi.AWS4Authorization(sesKeyID, sesSecret, "eu-west-1", "ses", at, r.Method, r.URL.EscapedPath(),
		r.URL.RawQuery, signed, string(body))
	data := string(m.Content.Raw.Data)
	mime, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		return Mail{}, err
	}
	header := map[string]string{}
	for name := range mime.Header {
		header[name] = mime.Header.Get(name)
	}
	from, err := mail.ParseAddress(header["From"])
	if err != nil {
		return Mail{}, err
	}
	return Mail{m.Destination.ToAddresses[0], m.EmailTags[0].Value, data, header["From"], header}, errors.Join(
		want("sender", m.FromEmailAddress, from.Address),
		want("request", r.Method+" "+r.URL.Path, "POST /v2/email/outbound-emails"),
		want("authorization", r.Header.Get("Authorization"), authorization),
		want("configuration set", m.ConfigurationSetName, "codes"), want("tag", m.EmailTags[0].Name, "send"),
	)
}
