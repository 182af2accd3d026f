package recipient

import (
	"errors"
	"strings"
	"testing"
)

func mustParse(t *testing.T, ch Channel, raw string) Recipient {
	t.Helper()
	r, err := Parse(ch, raw)
	if err != nil {
		t.Fatalf("Parse(%s, %q): %v", ch, raw, err)
	}
	return r
}

// refuses checks that each input is refused with the reason under which it stands.
func refuses(t *testing.T, parse func(raw string) error, reasons map[string][]string) {
	t.Helper()
	for reason, inputs := range reasons {
		for _, raw := range inputs {
			var bad *InvalidError
			if err := parse(raw); !errors.As(err, &bad) || bad.Reason != reason {
				t.Errorf("%q: %v, want %s", raw, err, reason)
			}
		}
	}
}

func TestParseChannel(t *testing.T) {
	for _, ch := range []Channel{Email, SMS} {
		if got, err := ParseChannel(string(ch)); got != ch || err != nil {
			t.Errorf("ParseChannel(%q) = %q, %v", ch, got, err)
		}
	}
	unknown := map[string][]string{"unknown_channel": {"", "Email", "sms ", "push", "email\n"}}
	refuses(t, func(s string) error { _, err := ParseChannel(s); return err }, unknown)
	refuses(t, func(s string) error { _, err := Parse(Channel(s), "a@example.com"); return err }, unknown)
}

func TestEveryReasonHasItsSentence(t *testing.T) {
	reasons := Reasons()
	if len(reasons) != len(details) {
		t.Fatalf("Reasons() has %d, the table %d", len(reasons), len(details))
	}
	for _, reason := range reasons {
		err := invalid(reason).(*InvalidError)
		if !strings.HasSuffix(err.Detail, ".") {
			t.Errorf("reason %q: detail %q is no sentence", reason, err.Detail)
		}
		if strings.Trim(reason, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("reason %q is no machine code", reason)
		}
	}
}

func TestEqual(t *testing.T) {
	ana := mustParse(t, Email, "ana@example.com")
	if !ana.Equal(mustParse(t, Email, " ana@EXAMPLE.com ")) || ana.Equal(mustParse(t, Email, "ben@example.com")) || ana.Equal(Recipient{}) {
		t.Error("Equal does not compare channel and address")
	}
	var r Recipient
	if r.Channel() != "" || r.Address() != "" || r.Masked() != "" || r.Country() != "" || r.VoIP() || r.Landline() || r.Written() != "" {
		t.Errorf("the zero value is not empty: %v", r)
	}
}
