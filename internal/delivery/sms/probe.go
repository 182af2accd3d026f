package sms

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sendcode/internal/delivery"
)

// Probe looks whether a carrier would do, without sending anything: its host answers, over TLS where it must, and, where it
// has a harmless question to answer, takes our signature and knows the templates. What it says holds no secret; "" before an
// error.
func Probe(ctx context.Context, c Carrier) (string, error) {
	p, ok := c.(prober)
	if !ok {
		return "", errProbe
	}
	host, err := reach(ctx, p.endpoint())
	if err != nil {
		return "", err
	}
	said, err := p.probe(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", host, err)
	}
	return host + " answers" + said, nil
}

// prober is a Carrier that can be looked at.
type prober interface {
	endpoint() string
	// probe asks something harmless, and says what is known then, as ", …".
	probe(ctx context.Context) (string, error)
}

const (
	errProbe    = problem("nothing can be asked of this carrier")
	errResolve  = problem("the host has no address")
	errNoReach  = problem("the host takes no connection")
	errNoTLS    = problem("the host's certificate is not valid for it, or it speaks no TLS")
	errRefused  = problem("the login or the signature is refused")
	errUnknown  = problem("the carrier does not know a template, or has not approved it")
	errAnswered = problem("the carrier answers something else than is documented")
)

// reach opens a connection as a message would.
func reach(ctx context.Context, endpoint string) (host string, err error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", errMessage
	}
	host = u.Hostname()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return host, fmt.Errorf("%s: %w", host, errResolve)
	}
	port := u.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[u.Scheme == "https"]
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return host, fmt.Errorf("%s: %w", host, errNoReach)
	}
	defer func() { _ = conn.Close() }()
	if u.Scheme == "https" {
		if err := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx); err != nil {
			return host, fmt.Errorf("%s: %w", host, errNoTLS)
		}
	}
	return host, nil
}

func (t *twilio) endpoint() string { return t.Endpoint }

// probe fetches a message that there is not: with the right login that is a 404 (twilio.com/docs/usage/requests-to-twilio).
func (t *twilio) probe(ctx context.Context) (string, error) {
	a, fail := t.exchange.do(ctx, request{
		method: http.MethodGet, url: strings.TrimSuffix(t.Endpoint, "/") + "/2010-04-01/Accounts/" + t.Account + "/Messages/SM" + strings.Repeat("0", 32) + ".json",
		header: http.Header{"Authorization": {basicAuth(t.user(), t.Token)}, "Accept": {"application/json"}},
	})
	switch {
	case fail != nil:
		return "", fail
	case a.status == http.StatusNotFound || a.status == http.StatusOK:
		return ", and takes the login", nil
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		return "", errRefused
	}
	return "", errAnswered
}

func (c *aliyun) endpoint() string { return c.Endpoint }

// probe asks for each template (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-getsmstemplate): status 1 is
// approved.
func (c *aliyun) probe(ctx context.Context) (string, error) {
	ids := c.Templates.all()
	for _, id := range ids {
		a, fail := c.exchange.do(ctx, c.request("GetSmsTemplate", map[string]string{"TemplateCode": id}))
		if fail != nil {
			return "", fail
		}
		var said struct {
			Code           string
			TemplateStatus json.RawMessage // a number or a text with it
		}
		switch err := json.Unmarshal(a.body, &said); {
		case err != nil || said.Code == "":
			return "", errAnswered
		case strings.HasPrefix(said.Code, "SignatureDoesNotMatch"), strings.HasPrefix(said.Code, "IncompleteSignature"), strings.HasPrefix(said.Code, "InvalidAccessKeyId"):
			return "", errRefused
		case said.Code != "OK":
			return "", fmt.Errorf("template %s: %w: %s", id, errUnknown, asCode(said.Code))
		case strings.Trim(string(said.TemplateStatus), `"`) != "1":
			return "", fmt.Errorf("template %s: %w", id, errUnknown)
		}
	}
	return known(ids), nil
}

func known(ids []string) string {
	return ", takes the signature and knows the templates " + strings.Join(ids, ", ")
}

// all are the IDs, each once, in order.
func (a Approved) all() []string {
	var ids []string
	for _, languages := range a {
		for _, id := range languages {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (c *tencent) endpoint() string { return c.Endpoint }

// probe asks for the templates (tencentcloud.com/document/product/382/40524), those of the mainland and then the others: status
// 0 is approved.
func (c *tencent) probe(ctx context.Context) (string, error) {
	ids := c.Templates.all()
	var numbers []int
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			return "", fmt.Errorf("template %s: %w", id, errUnknown)
		}
		numbers = append(numbers, n)
	}
	approved := map[int]bool{}
	for international := range 2 {
		if err := c.templates(ctx, international, numbers, approved); err != nil {
			return "", err
		}
	}
	for i, n := range numbers {
		if !approved[n] {
			return "", fmt.Errorf("template %s: %w", ids[i], errUnknown)
		}
	}
	return known(ids), nil
}

func (c *tencent) templates(ctx context.Context, international int, ids []int, approved map[int]bool) error {
	body, err := json.Marshal(map[string]any{"International": international, "TemplateIdSet": ids})
	if err != nil {
		return errMessage
	}
	a, fail := c.exchange.do(ctx, c.request("DescribeSmsTemplateList", body))
	if fail != nil {
		return fail
	}
	var said struct {
		Response struct {
			Error                     *struct{ Code string }
			DescribeTemplateStatusSet []struct{ TemplateID, StatusCode int }
		}
	}
	switch err := json.Unmarshal(a.body, &said); {
	case err != nil:
		return errAnswered
	case said.Response.Error == nil:
	case strings.HasPrefix(said.Response.Error.Code, "AuthFailure"):
		return errRefused
	default:
		return &Error{Class: delivery.Temporary, Stage: StageAnswer, Status: a.status, Code: asCode(said.Response.Error.Code)}
	}
	for _, t := range said.Response.DescribeTemplateStatusSet {
		approved[t.TemplateID] = approved[t.TemplateID] || t.StatusCode == 0
	}
	return nil
}

func (g *generic) endpoint() string { return placeholder.ReplaceAllString(g.URL, "x") }

func (g *generic) probe(context.Context) (string, error) {
	return "; nothing harmless can be asked of it", nil
}
