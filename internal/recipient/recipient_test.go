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

func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	var bad *InvalidError
	if !errors.As(err, &bad) {
		t.Fatalf("error %v, want an *InvalidError %q", err, reason)
	}
	if bad.Reason != reason {
		t.Errorf("reason %q, want %q", bad.Reason, reason)
	}
}

func TestParseChannel(t *testing.T) {
	for _, ch := range []Channel{Email, SMS} {
		if got, err := ParseChannel(string(ch)); got != ch || err != nil {
			t.Errorf("ParseChannel(%q) = %q, %v", ch, got, err)
		}
	}
	for _, s := range []string{"", "Email", "sms ", "push", "email\n"} {
		_, err := ParseChannel(s)
		wantReason(t, err, "unknown_channel")
		_, err = Parse(Channel(s), "a@example.com")
		wantReason(t, err, "unknown_channel")
	}
}

func TestZeroRecipientIsEmpty(t *testing.T) {
	var r Recipient
	if r.Channel() != "" || r.Address() != "" || r.Masked() != "" || r.Country() != "" || r.VoIP() {
		t.Errorf("the zero value is not empty: %v", r)
	}
}

func TestEqual(t *testing.T) {
	ana := mustParse(t, Email, "ana@example.com")
	if !ana.Equal(mustParse(t, Email, " ana@EXAMPLE.com ")) {
		t.Error("the same recipient parsed twice is not equal")
	}
	if ana.Equal(mustParse(t, Email, "ben@example.com")) || ana.Equal(Recipient{}) {
		t.Error("two recipients are equal")
	}
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
