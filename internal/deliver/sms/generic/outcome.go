package generic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/deliver/sms"
)

func (c Config) checkReceipts(note func(string, error)) {
	if (c.Receipt != "" || c.Poll.isSet()) != (len(c.Delivered)+len(c.Undelivered) > 0) {
		note("delivered", errors.New(
			"and undelivered need receipt or poll, which say where the status is; they list the values of the status"))
	}
	if strings.HasPrefix(c.Receipt, "$") {
		if _, err := parseExtraction(c.Receipt); err != nil {
			note("receipt", errors.New("is neither the name of a parameter nor a path such as $.status"))
		}
	}
	if slices.ContainsFunc(c.Delivered, func(word string) bool { return slices.Contains(c.Undelivered, word) }) {
		note("delivered", errors.New("must not have a value that undelivered has, too"))
	}
}

func (c *carrier) ParseReports(in sms.IncomingRequest, send string) ([]sms.Report, string, error) {
	word, found := findStatus(c.Receipt, in)
	if send == "" || !found {
		return nil, "", sms.ErrUnreadableReport
	}
	if report, final := sms.ReportByStatus(send, word, c.Delivered, c.Undelivered); final {
		return []sms.Report{report}, "", nil
	}
	return nil, "", nil
}

// findStatus finds the status in a receipt or an answer: where is a path in JSON that begins with
// "$", or a parameter of the URL or the form.
func findStatus(where string, in sms.IncomingRequest) (string, bool) {
	if strings.HasPrefix(where, "$") {
		e, err := parseExtraction(where)
		if err != nil {
			return "", false
		}
		return e.find(in.Body)
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return "", false
	}
	values := u.Query()
	if !values.Has(where) {
		if values, err = url.ParseQuery(string(in.Body)); err != nil {
			return "", false
		}
	}
	return values.Get(where), values.Has(where)
}

// extraction finds a value in a body, either by a path through JSON, such as "$.messages.0.id", or
// by a regular expression whose first group is the value. The zero extraction finds nothing.
type extraction struct {
	text    string
	path    providerhttp.JSONPath
	pattern *regexp.Regexp
}

// parseExtraction returns an error that continues a sentence after the setting's name.
func parseExtraction(text string) (extraction, error) {
	e := extraction{text: text}
	if rest, isPath := strings.CutPrefix(text, "$."); isPath {
		var err error
		e.path, err = providerhttp.ParseJSONPath(rest)
		return e, err
	}
	pattern, err := regexp.Compile(text)
	if err != nil || pattern.NumSubexp() < 1 {
		return extraction{}, errors.New(
			"is neither a path such as $.messages.0.id nor a regular expression with a group")
	}
	e.pattern = pattern
	return e, nil
}

func (e *extraction) UnmarshalText(text []byte) (err error) {
	*e, err = parseExtraction(string(text))
	return err
}

func (e extraction) MarshalText() ([]byte, error) { return []byte(e.text), nil }

func (e extraction) isSet() bool { return e.path != nil || e.pattern != nil }

func (e extraction) find(body []byte) (string, bool) {
	if e.pattern != nil {
		found := e.pattern.FindSubmatch(body)
		if found == nil {
			return "", false
		}
		return string(found[1]), true
	}
	if e.path == nil {
		return "", false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var at any
	if decoder.Decode(&at) != nil {
		return "", false
	}
	return providerhttp.ScalarText(e.path.Find(at))
}

// pollSettings describes how a carrier is polled for receipts.
type pollSettings struct {
	// The URL to GET. `{message}` is the carrier's message ID.
	URL string `yaml:"url,omitempty"`
	// The path of the status in the carrier's answer.
	Status string `yaml:"status,omitempty"`
}

func (p pollSettings) isSet() bool { return p.URL != "" || p.Status != "" }

func (p pollSettings) check(note func(string, error), id extraction) {
	switch {
	case !p.isSet():
		return
	case p.URL == "" || !strings.HasPrefix(p.Status, "$"):
		note("poll", errors.New("needs url, and the path of the status in the answer: status, such as $.status"))
	case strings.Contains(p.URL, "{message}") && !id.isSet():
		note("poll", errors.New("contains {message}, so give answer.id, the path of the carrier's message ID"))
	case !strings.Contains(p.URL, "{message}") && !strings.Contains(p.URL, "{id}"):
		note("poll", errors.New("url must contain {message}, the carrier's ID of the message, or {id}, the ID of the send"))
	default:
		if unknown := unknownPlaceholders(strings.ReplaceAll(p.URL, "{message}", "")); len(unknown) > 0 {
			note("poll", errors.New("there is no placeholder "+strings.Join(unknown, ", ")))
		}
		if err := checkTemplateURL(p.URL); err != nil {
			note("poll", errors.New("url "+err.Error()))
		}
	}
	if _, err := parseExtraction(p.Status); err != nil {
		note("poll", errors.New("status is not a path such as $.status"))
	}
}

const errNoPoll = delivery.SafeError("poll is not configured for this carrier")

func (c *carrier) PollStatus(ctx context.Context, q sms.StatusQuery) (sms.Report, bool, error) {
	if !c.Poll.isSet() {
		return sms.Report{}, false, &delivery.Error{
			Class: delivery.Rejected, Stage: delivery.StagePrepare, About: delivery.AboutUs,
			Err: errNoPoll,
		}
	}
	filled := placeholderValues(sms.Message{ID: q.Send, To: q.To, Country: q.Country}, c.Secret)
	filled["message"] = q.CarrierID
	r := providerhttp.Request{
		Method: http.MethodGet, URL: fillIn(c.Poll.URL, filled, providerhttp.EscapeURLPart),
		Header: c.requestHeader(filled),
	}
	a, err := c.Query(ctx, r)
	if err != nil {
		return sms.Report{}, false, err
	}
	word, found := findStatus(c.Poll.Status, sms.IncomingRequest{Body: a.Body})
	if !found {
		return sms.Report{}, false, sms.StatusQueryError(a, "")
	}
	report, known := sms.ReportByStatus(q.Send, word, c.Delivered, c.Undelivered)
	return report, known, nil
}

func (c *carrier) EndpointURL() string { return placeholderPattern.ReplaceAllString(c.URL, "x") }

func (c *carrier) Probe(context.Context) (string, error) {
	return "; it has no harmless request to try", nil
}
