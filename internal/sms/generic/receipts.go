package generic

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"sendcode/internal/sms"
)

// ReceiptWords say how the receipts of a described carrier are read.
type ReceiptWords struct {
	// The status: a parameter, or a path in JSON.
	Status string `yaml:"status,omitempty"`
	// Its values for delivered.
	Delivered []string `yaml:"delivered,omitempty"`
	// Its values for undelivered.
	Undelivered []string `yaml:"undelivered,omitempty"`
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
func (g *carrier) Reports(in sms.Incoming, send string) ([]sms.Report, string, error) {
	word, found := g.Receipt.find(in)
	if send == "" || !found {
		return nil, "", sms.ErrReport
	}
	if report, final := sms.FinalReport(send, word, g.Receipt.Delivered, g.Receipt.Undelivered); final {
		return []sms.Report{report}, "", nil
	}
	return nil, "", nil
}

func (w ReceiptWords) find(in sms.Incoming) (string, bool) {
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
