package sms

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Incoming is what a carrier sent to tell what became of messages, whole.
type Incoming struct {
	URL    string // as the carrier called it: scheme, host, path and query of our public address
	Header http.Header
	Body   []byte
}

// Report is what a carrier says of one send. Reports that say nothing final, such as "queued", are left out.
type Report struct {
	Send      string // ID of the send, as the message had it; empty: it is told by ID
	Delivered bool   // else it is certain that it did not arrive
	ID        string // the carrier's for the message, where it names no send
}

// Reporter is a Carrier that tells afterwards. The address at which it does holds a token of ours, which the caller has
// checked; send is the send that the address names, "" where it names none.
type Reporter interface {
	// Reports reads them, and gives what the carrier wants to hear back. Errors: ErrForged, ErrReport.
	Reports(in Incoming, send string) (reports []Report, reply string, err error)
}

var (
	// ErrForged: the signature is not the carrier's.
	ErrForged = errors.New("sms: the signature of a receipt is wrong")
	// ErrReport: it can't be read.
	ErrReport = errors.New("sms: a receipt can't be read")
)

// ReceiptWords say how the receipts of a described carrier are read.
type ReceiptWords struct {
	// Status names the parameter of query or form that holds the status, or is a path such as $.status through a JSON body.
	Status                 string
	Delivered, Undelivered []string
}

func (w ReceiptWords) set() bool { return w.Status != "" }

func (w ReceiptWords) check(note func(string, error)) {
	if w.set() != (len(w.Delivered)+len(w.Undelivered) > 0) {
		note("receipt", errors.New("needs status, where the status stands, and the words that it has when delivered and undelivered"))
	}
	if strings.HasPrefix(w.Status, "$") {
		if _, err := ParseExtract(w.Status); err != nil {
			note("receipt", errors.New("status is neither the name of a parameter nor a path such as $.status"))
		}
	}
	if slices.ContainsFunc(w.Delivered, func(word string) bool { return slices.Contains(w.Undelivered, word) }) {
		note("receipt", errors.New("a word can't mean both delivered and undelivered"))
	}
}

// Reports implements Reporter.
func (g *generic) Reports(in Incoming, send string) ([]Report, string, error) {
	if send == "" {
		return nil, "", ErrReport
	}
	word, found := g.Receipt.find(in)
	switch {
	case !found:
		return nil, "", ErrReport
	case slices.Contains(g.Receipt.Delivered, word):
		return []Report{{Send: send, Delivered: true}}, "", nil
	case slices.Contains(g.Receipt.Undelivered, word):
		return []Report{{Send: send}}, "", nil
	}
	return nil, "", nil
}

func (w ReceiptWords) find(in Incoming) (string, bool) {
	if strings.HasPrefix(w.Status, "$") {
		e, err := ParseExtract(w.Status)
		if err != nil {
			return "", false
		}
		return e.from(in.Body)
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return "", false
	}
	values := u.Query()
	if !values.Has(w.Status) {
		if values, err = url.ParseQuery(string(in.Body)); err != nil {
			return "", false
		}
	}
	return values.Get(w.Status), values.Has(w.Status)
}

// Reports implements Reporter (twilio.com/docs/messaging/guides/outbound-message-status-in-status-callbacks). With an API key
// the account's token, which signs, is not known here: then the token in the address alone tells that it is Twilio.
func (t *twilio) Reports(in Incoming, send string) ([]Report, string, error) {
	form, err := url.ParseQuery(string(in.Body))
	if err != nil || send == "" {
		return nil, "", ErrReport
	}
	if t.Key == "" && !hmac.Equal([]byte(in.Header.Get("X-Twilio-Signature")), []byte(signTwilio(t.Token, in.URL, form))) {
		return nil, "", ErrForged
	}
	switch form.Get("MessageStatus") {
	case "delivered", "read":
		return []Report{{Send: send, Delivered: true}}, "", nil
	case "undelivered", "failed":
		return []Report{{Send: send}}, "", nil
	case "":
		return nil, "", ErrReport
	}
	return nil, "", nil
}

// signTwilio is X-Twilio-Signature (twilio.com/docs/usage/security#validating-requests): of the exact URL, and each
// parameter of the form after its name, sorted.
func signTwilio(token, address string, form url.Values) string {
	var text strings.Builder
	text.WriteString(address)
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range slices.Compact(slices.Sorted(slices.Values(form[name]))) {
			text.WriteString(name + value)
		}
	}
	mac := hmac.New(sha1.New, []byte(token))
	mac.Write([]byte(text.String()))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Reports implements Reporter (help.aliyun.com/zh/sms/developer-reference/configure-delivery-receipts-1): a list, at an
// address that the account has and that names no send; out_id is what SendSms was given.
func (c *aliyun) Reports(in Incoming, _ string) ([]Report, string, error) {
	var all []struct {
		OutID   string `json:"out_id"`
		Success *bool  `json:"success"`
	}
	if err := json.Unmarshal(in.Body, &all); err != nil {
		return nil, "", ErrReport
	}
	var reports []Report
	for _, r := range all {
		if r.Success != nil && r.OutID != "" {
			reports = append(reports, Report{Send: r.OutID, Delivered: *r.Success})
		}
	}
	return reports, `{"code":0,"msg":"OK"}`, nil
}

// Reporter gives the carrier of a name, if it tells afterwards.
func (c *Carriers) Reporter(name string) (Reporter, bool) {
	for _, r := range c.routes {
		if r.Carrier.Name() == name {
			reporter, ok := r.Carrier.(Reporter)
			return reporter, ok
		}
	}
	return nil, false
}
