package rig

import (
	"context"
	"slices"
	"sync"
	"testing"

	"sendcode/internal/message"
	"sendcode/internal/sms"
	"sendcode/internal/verification"
	"sendcode/templates"
)

const (
	Mobile      = "+4915123456789"
	OtherMobile = "+4915123456788"
	American    = "+12025550123"
	Jamaican    = "+18765550123"
)

// handset receives text messages, or fails as it is told.
type Handset struct {
	Mu   sync.Mutex
	got  []sms.Message
	fail error
	ID   string // the carrier's for the next messages
}

func (h *Handset) Send(_ context.Context, m sms.Message) (sms.Receipt, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if h.fail != nil {
		return sms.Receipt{Carrier: "fake"}, h.fail
	}
	h.got = append(h.got, m)
	id := h.ID
	if id == "" {
		id = "id-1"
	}
	return sms.Receipt{Carrier: "fake", ID: id, Code: "202"}, nil
}

func (h *Handset) Fails(err error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.fail = err
}

func (h *Handset) All() []sms.Message {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return slices.Clone(h.got)
}

func testTexts(t *testing.T) *message.Texts {
	t.Helper()
	texts, err := message.NewTexts(message.TextLimits{Segments: 1, Measure: func(text string) int { return sms.Measure(text).Segments }}, templates.FS)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func ToNumbers(countries ...string) func(*Settings) {
	return func(s *Settings) {
		s.Numbers.Countries = map[string]bool{}
		for _, c := range countries {
			s.Numbers.Countries[c] = true
		}
	}
}

func TextTo(to string) verification.Ask {
	return verification.Ask{Caller: BackEnd, Channel: "sms", To: to, Locale: "zh-CN"}
}
