package mailapi

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/exchange"
)

// sesAPI is Amazon SES, API v2 (docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html).
type sesAPI struct{ *Config }

var (
	regionPattern = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)
	keyIDPattern  = regexp.MustCompile(`^[A-Z0-9]{16,128}$`)
)

// openSES takes the region as the URL's host. For tests the URL may have another host, and the region in
// the parameter region.
func openSES(c *Config) (providerAPI, error) {
	region := c.Parameters["region"]
	if regionPattern.MatchString(c.Host) && region == "" {
		region = c.Host
		c.Host = "email." + region + ".amazonaws.com"
	}
	switch {
	case !keyIDPattern.MatchString(c.Username) || c.Password == "":
		return nil, delivery.SafeError("must be ses://id:secret@region, with the ID and the secret of an access key")
	case !regionPattern.MatchString(region):
		return nil, delivery.SafeError("must be ses://id:secret@region, with a region such as eu-west-1")
	}
	c.Parameters = map[string]string{
		"region":            region,
		"configuration_set": c.Parameters["configuration_set"],
	}
	if c.Host == "" {
		return nil, delivery.SafeError("the host is missing")
	}
	return sesAPI{c}, nil
}

// idempotent is false: SES has no idempotency key.
func (s sesAPI) idempotent() bool { return false }

func (s sesAPI) buildRequest(mail *delivery.RenderedMail) (exchange.Request, *delivery.Error) {
	if mail.UTF8 { // docs.aws.amazon.com/ses/latest/dg/send-email-concepts-email-format.html
		return exchange.Request{}, &delivery.Error{Class: delivery.Rejected, Stage: delivery.StagePrepare, Unreachable: true, Err: errUTF8}
	}
	type tag struct{ Name, Value string }
	type raw struct{ Data []byte }
	body, _ := json.Marshal(struct { // texts always encode
		FromEmailAddress     string
		Destination          struct{ ToAddresses []string }
		Content              struct{ Raw raw }
		ConfigurationSetName string `json:",omitempty"`
		EmailTags            []tag
	}{
		mail.From,
		struct{ ToAddresses []string }{[]string{mail.To}},
		struct{ Raw raw }{raw{mail.Content}},
		s.Parameters["configuration_set"],
		[]tag{{"send", sendIDOf(mail)}},
	})
	return s.signedRequest(http.MethodPost, "/v2/email/outbound-emails", body), nil
}

// signedRequest returns a request with AWS's signature, version 4
// (docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html).
func (s sesAPI) signedRequest(method, path string, body []byte) exchange.Request {
	now := s.Now().UTC()
	url := s.endpoint(path)
	headers := map[string]string{
		"content-type": "application/json", "host": exchange.Host(url),
		"x-amz-date": now.Format(amzDateFormat),
	}
	return exchange.Request{Method: method, URL: url, Body: body, Header: http.Header{
		"Authorization": {AWS4Authorization(s.Username, s.Password, s.Parameters["region"], "ses", now, method, path, "",
			headers, string(body))},
		"Content-Type": {headers["content-type"]}, "X-Amz-Date": {headers["x-amz-date"]},
	}}
}

const (
	aws4Algorithm = "AWS4-HMAC-SHA256"
	amzDateFormat = "20060102T150405Z"
)

// AWS4Authorization returns the Authorization header of a request. The names of the signed headers are in
// lower case, and one of them is x-amz-date.
func AWS4Authorization(id, secret, region, service string, at time.Time, method, path, query string, signed map[string]string,
	body string,
) string {
	canonical, list := exchange.CanonicalRequest(method, path, query, signed, exchange.HexSHA256(body))
	date := at.UTC().Format("20060102")
	scope := strings.Join([]string{date, region, service, "aws4_request"}, "/")
	text := strings.Join([]string{aws4Algorithm, at.UTC().Format(amzDateFormat), scope, exchange.HexSHA256(canonical)}, "\n")
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = exchange.HMACSHA256(key, part)
	}
	return aws4Algorithm + " Credential=" + id + "/" + scope + ", SignedHeaders=" + list + ", Signature=" +
		hex.EncodeToString(exchange.HMACSHA256(key, text))
}

// readAnswer takes the code from the header, or the body, as AWS's protocol restJson1 has it:
// "MessageRejected:http://…" or "…#MessageRejected".
func (s sesAPI) readAnswer(a exchange.Response) (accepted bool, code, words string) {
	var said struct {
		MessageID string `json:"MessageId"`
		Type      string `json:"__type"`
		Message   string
	}
	_ = json.Unmarshal(a.Body, &said) // if it fails, the header has the code, or the status counts
	code, _, _ = strings.Cut(cmp.Or(a.Header.Get("X-Amzn-Errortype"), said.Type), ":")
	return said.MessageID != "", code[strings.LastIndexByte(code, '#')+1:], said.Message
}

// codeMeanings has the codes of API_SendEmail and CommonErrors that mean something else than their
// HTTP status, mostly 400.
func (s sesAPI) codeMeanings() map[string]codeMeaning {
	return map[string]codeMeaning{
		"AccountSuspendedException":          meansTemporary,
		"SendingPausedException":             meansTemporary,
		"MailFromDomainNotVerifiedException": meansTemporary,
		"LimitExceededException":             meansTemporary,
		"ThrottlingException":                meansTemporary,
		"ExpiredTokenException":              meansTemporary,
		"RequestExpired":                     meansTemporary,
	}
}

// probeRequest reads the account's settings. SES answers AccessDeniedException to a key that may
// only send, after it has verified the signature.
func (s sesAPI) probeRequest() (exchange.Request, func(int, string) bool) {
	return s.signedRequest(http.MethodGet, "/v2/email/account", nil), func(status int, code string) bool {
		return status == http.StatusOK || code == "AccessDeniedException"
	}
}
