package generic

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"sendcode/internal/delivery"
	"sendcode/internal/sms"
)

// Poll describes how a carrier is asked what became of a message.
type Poll struct {
	Off bool `yaml:"-"`
	// Fetched by GET; `{message}` is the carrier's message ID.
	URL          string `yaml:"url,omitempty"`
	ReceiptWords `yaml:",inline"`
}

// UnmarshalText reads off.
func (p *Poll) UnmarshalText(text []byte) error {
	if p.Off = string(text) == "off"; !p.Off {
		return sms.ErrOnOff
	}
	return nil
}

// MarshalText writes off, or nothing.
func (p Poll) MarshalText() ([]byte, error) {
	if p.Off {
		return []byte("off"), nil
	}
	return nil, nil
}

func (p Poll) set() bool { return p.URL != "" || p.ReceiptWords.set() }

func (p Poll) check(note func(string, error), id Extract) {
	switch {
	case !p.set():
		return
	case p.URL == "" || !strings.HasPrefix(p.Status, "$"):
		note("poll", errors.New("needs url, and status, a path such as $.status through the answer"))
	case strings.Contains(p.URL, "{message}") && !id.set():
		note("poll", errors.New("asks for {message}, so answer needs id: where the carrier's ID stands"))
	case !strings.Contains(p.URL, "{message}") && !strings.Contains(p.URL, "{id}"):
		note("poll", errors.New("url names no message: {message} is the carrier's ID, {id} the send's"))
	default:
		if unknown := unknownNames(strings.ReplaceAll(p.URL, "{message}", "")); len(unknown) > 0 {
			note("poll", errors.New("there is no placeholder "+strings.Join(unknown, ", ")))
		}
		if err := checkTemplateURL(p.URL); err != nil {
			note("poll", errors.New("url "+err.Error()))
		}
	}
	p.ReceiptWords.check(func(_ string, err error) { note("poll", err) })
}

// errNoPoll is of a carrier whose description does not say how it is asked.
const errNoPoll = delivery.Problem("it is not described how the carrier is asked")

// Ask implements Asker.
func (g *carrier) Ask(ctx context.Context, q sms.Inquiry) (sms.Report, bool, error) {
	if !g.Poll.set() {
		return sms.Report{}, false, &sms.Error{Class: delivery.Rejected, Stage: sms.StageMessage, Err: errNoPoll}
	}
	filled := values(sms.Message{ID: q.Send, To: q.To, Country: q.Country}, g.Secret)
	filled["message"] = q.ID
	r := sms.Request{Method: http.MethodGet, URL: fillIn(g.Poll.URL, filled, sms.EscapeURL), Header: g.header(filled)}
	a, err := g.Query(ctx, r)
	if err != nil {
		return sms.Report{}, false, err
	}
	word, found := g.Poll.find(sms.Incoming{Body: a.Body})
	if !found {
		return sms.Report{}, false, sms.Unreadable(a, "")
	}
	report, known := sms.FinalReport(q.Send, word, g.Poll.Delivered, g.Poll.Undelivered)
	return report, known, nil
}

func (g *carrier) Address() string { return placeholder.ReplaceAllString(g.URL, "x") }

func (g *carrier) Probe(context.Context) (string, error) {
	return "; nothing harmless can be asked of it", nil
}
