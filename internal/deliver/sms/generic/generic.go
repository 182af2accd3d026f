// Package generic sends text messages through any carrier with an HTTP API, such as Kannel, that
// settings describe.
package generic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/deliver/sms"
)

// Config describes a carrier's HTTP interface. The URL, the headers and the body may have
// placeholders in braces, such as {to} and {text}. Each value is escaped as its place requires.
// {secret} is the carrier's secret.
type Config struct {
	// https, or http to loopback. Redirects are not followed.
	URL string `yaml:"url,omitempty"`
	// The user for HTTP Basic. The secret is the password.
	User string `yaml:"user,omitempty"`
	// More headers of the request.
	Header map[string]string `yaml:"headers,omitempty"`
	// The body of a POST request, as JSON or as a form. Without a body the request is a GET.
	Body string `yaml:"body,omitempty"`
	// How the service reads the carrier's answer.
	Answer answerSettings `yaml:"answer,omitempty"`
	// How the service asks the carrier for receipts.
	Poll pollSettings `yaml:"poll,omitempty"`
	// Where a receipt has the status: the name of a parameter, or a path in JSON.
	Receipt string `yaml:"receipt,omitempty"`
	// The status values that mean "delivered", in receipts and in answers to `poll`.
	Delivered []string `yaml:"delivered,omitempty"`
	// The status values that mean "not delivered", in receipts and in answers to `poll`.
	Undelivered []string `yaml:"undelivered,omitempty"`
}

// answerSettings says how a carrier's answer is read. Four rules are tried in this order, and the
// first rule that applies decides: a code that means a failure, an HTTP status in Statuses, an HTTP
// status other than 2xx, a code that means acceptance.
type answerSettings struct {
	// Where the answer has the carrier's message ID: a path such as `$.messages.0.id`, or a regular
	// expression with a group.
	ID extraction `yaml:"id,omitempty"`
	// Where the answer has the carrier's code, in the same notation.
	Code extraction `yaml:"code,omitempty"`
	// The meaning of each code: `accepted`, `rejected`, `temporary`, `unreachable`, `unknown`,
	// `opted_out`, or a limit such as `limit 60s`. If no code means `accepted`, every 2xx status
	// means acceptance.
	Codes map[string]codeMeaning `yaml:"codes,omitempty"`
	// The meaning of each HTTP status, for answers whose code means no failure. The words are those
	// of `codes`, without `accepted`.
	Statuses map[string]codeMeaning `yaml:"statuses,omitempty"`
}

type carrier struct {
	Config
	*sms.Client
}

// codeMeaning is a word in answerSettings.Codes or answerSettings.Statuses.
type codeMeaning string

const meansAccepted codeMeaning = "accepted"

// meaning returns the failure that the word stands for. "accepted" and unknown words give an error.
func (m codeMeaning) meaning() (sms.Meaning, error) {
	if wait, isLimit := strings.CutPrefix(string(m), "limit "); isLimit {
		hold, err := time.ParseDuration(strings.TrimSpace(wait))
		if err != nil || hold < time.Second || hold > maxHold {
			return sms.Meaning{}, errors.New("a limit lasts from 1s to 24h, as in: limit 60s")
		}
		return sms.MeaningLimited(hold), nil
	}
	known := map[codeMeaning]sms.Meaning{
		"rejected": sms.MeaningRejected, "temporary": sms.MeaningPerNumber, "unknown": sms.MeaningUnknown,
		"opted_out": sms.MeaningOptedOut, "unreachable": sms.MeaningUnreachable,
	}
	v, ok := known[m]
	if !ok {
		return sms.Meaning{}, errors.New(
			"must be rejected, temporary, unreachable, unknown, opted_out or a limit such as: limit 60s")
	}
	return v, nil
}

const maxHold = 24 * time.Hour // the longest time for which a carrier's limit may hold a recipient's messages back

func (c Config) Check() map[string]error {
	wrong := map[string]error{}
	note := func(key string, err error) {
		if err != nil && wrong[key] == nil {
			wrong[key] = err
		}
	}
	note("url", checkTemplateURL(c.URL))
	for name, value := range c.Header {
		note("headers", checkHeader(name, value))
	}
	note("body", checkBody(c.Body))
	for key, text := range map[string]string{"url": c.URL, "body": c.Body} {
		if unknown := unknownPlaceholders(text); len(unknown) > 0 {
			note(key, fmt.Errorf("there is no placeholder %s", strings.Join(unknown, ", ")))
		}
	}
	uses := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(c.URL+c.Body, "{"+n+"}") })
	}
	if !uses("to", "to_digits") || !uses("text", "code") {
		note("body", errors.New("neither URL nor body holds both the number, {to}, and the text, {text}"))
	}
	for key, m := range c.Answer.Codes {
		if _, err := m.meaning(); err != nil && m != meansAccepted {
			note("answer", fmt.Errorf("%s: %w; a code may also be accepted", key, err))
		}
	}
	for key, m := range c.Answer.Statuses {
		if _, err := m.meaning(); err != nil {
			note("answer", fmt.Errorf("%s: %w", key, err))
		}
	}
	if len(c.Answer.Codes) > 0 && !c.Answer.Code.isSet() {
		note("answer", errors.New("code is missing: say where in the answer the codes are"))
	}
	c.checkReceipts(note)
	c.Poll.check(note, c.Answer.ID)
	return wrong
}

func (c Config) NeedsSecret() bool { return c.User != "" || c.usesPlaceholder(secretPlaceholder) }

// usesPlaceholder reports whether any request of the carrier contains the placeholder.
func (c Config) usesPlaceholder(name string) bool {
	texts := slices.AppendSeq([]string{c.URL, c.Body, c.Poll.URL}, maps.Values(c.Header))
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, "{"+name+"}") })
}

// checkTemplateURL refuses placeholders in scheme and host, because the host must be the same for
// every message.
func checkTemplateURL(text string) error {
	fixed := placeholderPattern.ReplaceAllString(text, "x")
	if problem := loopback.URLProblem(fixed); problem != "" {
		return errors.New(problem)
	}
	u, _ := url.Parse(fixed)
	scheme, rest, _ := strings.Cut(text, "://")
	host, _, _ := strings.Cut(rest, "/")
	if strings.Contains(scheme, "{") || !strings.HasPrefix(host, u.Host) {
		return errors.New("the host can't be a placeholder")
	}
	return nil
}

var headerNamePattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

func checkHeader(name, value string) error {
	switch {
	case !headerNamePattern.MatchString(name):
		return fmt.Errorf("%q is not the name of a header", name)
	case slices.Contains([]string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Content-Type"},
		http.CanonicalHeaderKey(name)):
		return fmt.Errorf("%s cannot be set", name)
	case keepPrintableASCII(value) != value:
		return fmt.Errorf("%s contains a character that a header can't contain", name)
	}
	if unknown := unknownPlaceholders(value); len(unknown) > 0 {
		return fmt.Errorf("%s: there is no placeholder %s", name, strings.Join(unknown, ", "))
	}
	return nil
}

func (c Config) CanBePolled() bool { return c.Poll.isSet() }

func (c Config) NeedsCallback() bool { return strings.Contains(c.URL+c.Body, "{callback}") }

func (c Config) Open(s sms.Setup) sms.Carrier {
	return &carrier{c, sms.NewClient(s)}
}

func (c *carrier) Send(ctx context.Context, m sms.Message) (delivery.Result, *delivery.Error) {
	if m.Minutes == 0 && c.usesPlaceholder("minutes") {
		return delivery.Result{}, &delivery.Error{
			Class: delivery.Temporary, Stage: delivery.StagePrepare, About: delivery.AboutUs,
			Err: sms.ErrNoMinutes,
		}
	}
	got, fail := c.Attempt(ctx, c.buildSendRequest(m), c.parseSendAnswer)
	if c.Poll.isSet() && !c.Answer.ID.isSet() {
		got.CarrierID = m.ID // the URL of poll names the message by {id}
	}
	return got, fail
}

func (c *carrier) requestHeader(values map[string]string) http.Header {
	header := http.Header{}
	for name, value := range c.Config.Header {
		header.Set(name, fillIn(value, values, keepPrintableASCII))
	}
	if c.User != "" {
		header.Set("Authorization", providerhttp.BasicAuth(c.User, c.Secret))
	}
	return header
}

func (c *carrier) buildSendRequest(m sms.Message) providerhttp.Request {
	filled := placeholderValues(m, c.Secret)
	header := c.requestHeader(filled)
	r := providerhttp.Request{Method: http.MethodGet, URL: fillIn(c.URL, filled, providerhttp.EscapeURLPart), Header: header}
	if c.Body != "" {
		f := formatOf(c.Body)
		header.Set("Content-Type", f.contentType)
		r.Method, r.Body = http.MethodPost, []byte(fillIn(c.Body, filled, f.escape))
	}
	return r
}

func (c *carrier) parseSendAnswer(a providerhttp.Response) (id, code string, fail *delivery.Error) {
	id, _ = c.Answer.ID.find(a.Body)
	code, coded := c.Answer.Code.find(a.Body)
	m := c.Answer.Codes[code]
	accepts := m == meansAccepted
	if m == "" || accepts {
		m = c.Answer.Statuses[strconv.Itoa(a.Status)]
	}
	switch v, _ := m.meaning(); {
	case m != "":
		fail = v.ToError(a, code)
	case a.Status < 200 || a.Status >= 300:
		if fail = providerhttp.ErrorByStatus(a, code); fail.About == delivery.AboutAccount {
			fail = sms.MeaningPerNumber.ToError(a, code) // ToError changes this if the status concerns all messages
		}
	case accepts || !slices.Contains(slices.Collect(maps.Values(c.Answer.Codes)), meansAccepted):
	case coded:
		fail = sms.MeaningPerNumber.ToError(a, code) // the answer has a code, but none that means acceptance
	default:
		fail = &delivery.Error{
			Class: delivery.Unknown, Stage: delivery.StageAnswer, Status: a.Status,
			Err: providerhttp.ErrUnreadableAnswer,
		}
	}
	return id, code, fail
}
