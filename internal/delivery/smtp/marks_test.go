package smtp_test

import (
	"context"
	"testing"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
)

// A mark is a header with an ID, and nothing that could be a second line or mean something to a mail server.
func TestMarks(t *testing.T) {
	m := message(1)
	m.Marks = map[string]string{"X-PM-Metadata-send": "0198c1d2-7a54-7a3e-8a4f-000000000001", "X-Ours": "1"}
	header, _ := parse(t, onTheWire(t, m).Data)
	for name, want := range m.Marks {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	for name, value := range map[string]string{
		"Bcc": "1", "X-": "", "X-A\r\nBcc": "1", "X-A": "1\r\nBcc: b@example.com", "X-B": "ä", "X-Ä": "1", "X-C": "a b", "x-d": "1",
		"X-E": string(make([]byte, 81)),
	} {
		m.Marks = map[string]string{name: value}
		s, err := smtp.New(smtp.Config{Host: "127.0.0.1", TLS: smtp.TLSNone})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Send(context.Background(), m)
		if e, ok := err.(*delivery.Error); !ok || e.Class != delivery.Rejected || e.Stage != delivery.StageMessage {
			t.Errorf("%q: %v", name, err)
		}
		_ = s.Close()
	}
}
