package mailapitest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"net/url"
	"regexp"
	"strings"

	"sendcode/internal/deliver/delivery"
)

// The access key of the account, as AWS's examples have it.
const (
	sesKeyID  = "AKIAIOSFODNN7EXAMPLE"
	sesSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)

// ses is Amazon SES, API v2 (docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html).
func ses() Rig {
	fails := func(status int, code string) Said {
		return Said{Status: status, Header: http.Header{"X-Amzn-Errortype": {code + ":http://internal.amazon.com/"}},
			Body: `{"message":"Email address ada.lovelace@example.org is not verified."}`}
	}
	return Rig{
		Scheme: "ses", User: url.UserPassword(sesKeyID, sesSecret), Read: readSES,
		Parameters: url.Values{"region": {"eu-west-1"}, "configuration_set": {"codes"}},
		Accepted:   Said{Status: 200, Body: `{"MessageId":"010001903c9e5f8a-d1c3-4b2a-000000"}`},
		Refused:    fails(400, "MessageRejected"), Later: fails(429, "TooManyRequestsException"),
		Outcomes: map[string]Outcome{
			"a field is wrong": {fails(400, "BadRequestException"), delivery.Rejected, "BadRequestException"},
			"the domain is not ours": {fails(400, "MailFromDomainNotVerifiedException"), delivery.Temporary,
				"MailFromDomainNotVerifiedException"},
			"the account may not": {fails(400, "AccountSuspendedException"), delivery.Temporary,
				"AccountSuspendedException"},
			"sending is paused": {fails(400, "SendingPausedException"), delivery.Temporary,
				"SendingPausedException"},
			"too fast": {fails(400, "ThrottlingException"), delivery.Temporary, "ThrottlingException"},
			"the signature is wrong": {fails(403, "InvalidSignatureException"), delivery.Temporary,
				"InvalidSignatureException"},
			"a code in the body": {Said{Status: 400,
				Body: `{"__type":"com.amazonaws.ses.v2#AccountSuspendedException"}`}, delivery.Temporary,
				"AccountSuspendedException"},
			"it broke": {fails(500, "InternalFailure"), delivery.Unknown, "InternalFailure"},
		},
		Probe: "GET /v2/email/account",
		Good:  []Said{{Status: 200, Body: `{"SendingEnabled":true}`}, fails(403, "AccessDeniedException")},
		Bad:   fails(403, "InvalidSignatureException"),
	}
}

var credential = regexp.MustCompile(
	`^AWS4-HMAC-SHA256 Credential=([A-Z0-9]+)/([0-9]{8})/eu-west-1/ses/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$`)

// readSES checks the signature from the request as it came, by AWS's description and not by the
// code under test.
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
	said := credential.FindStringSubmatch(r.Header.Get("Authorization"))
	if said == nil {
		return Mail{}, fmt.Errorf("authorization %q", r.Header.Get("Authorization"))
	}
	sum := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n"
	for name := range strings.SplitSeq(said[3], ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		canonical += name + ":" + value + "\n"
	}
	canonical += "\n" + said[3] + "\n" + sum(body)
	key := []byte("AWS4" + sesSecret)
	for _, part := range []string{said[2], "eu-west-1", "ses", "aws4_request", ""} {
		if part == "" {
			part = "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + said[2] +
				"/eu-west-1/ses/aws4_request\n" + sum([]byte(canonical))
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
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
		want("signature", said[4], hex.EncodeToString(key)),
		want("key", said[1], sesKeyID), want("configuration set", m.ConfigurationSetName, "codes"),
		want("tag", m.EmailTags[0].Name, "send"),
		want("date", strings.HasPrefix(r.Header.Get("X-Amz-Date"), said[2]+"T"), true),
	)
}
