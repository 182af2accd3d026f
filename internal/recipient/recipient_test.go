package recipient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"
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

func TestRecipientPrintsMasked(t *testing.T) {
	r := mustParse(t, Email, "leaky.person@example.com")
	for verb, want := range map[string]string{
		"%v": "l•••@example.com", "%+v": "l•••@example.com", "%s": "l•••@example.com", "%d": "l•••@example.com",
		"%x": "l•••@example.com", "%q": `"l•••@example.com"`, "%18s|": "  l•••@example.com|",
		"%#v": "recipient.Recipient(l•••@example.com)",
	} {
		if got := fmt.Sprintf(verb, r); got != want {
			t.Errorf("%s gives %q, want %q", verb, got, want)
		}
		if got := fmt.Sprintf(verb, &r); got != want {
			t.Errorf("%s of a pointer gives %q, want %q", verb, got, want)
		}
	}
	if text, err := json.Marshal(map[string]any{"to": r}); err != nil || string(text) != `{"to":"l•••@example.com"}` {
		t.Errorf("JSON %s, %v", text, err)
	}
}

// However a Recipient is nested, no verb, logger, template or encoder shows what is hidden.
func TestRecipientNeverLeaks(t *testing.T) {
	type holder struct {
		r Recipient
		p *Recipient
		R Recipient
	}
	for ch, raw := range map[Channel]string{Email: "leaky.person@example.com", SMS: "+4915123456789"} {
		r := mustParse(t, ch, raw)
		secret := map[Channel]string{Email: "eaky", SMS: "5123456"}[ch]
		var out bytes.Buffer
		nested := []any{
			r, &r, holder{r, &r, r}, &holder{r, &r, r}, []Recipient{r}, map[string]Recipient{"x": r}, [1]holder{{r, &r, r}},
			map[string]holder{"x": {r, &r, r}}, struct{ a any }{r}, struct{ a any }{holder{r, &r, r}}, fmt.Errorf("to %v", r),
		}
		for _, v := range nested {
			for _, verb := range "vsqxXdobcUeEfFgGtpw" {
				for _, flags := range []string{"", "+", "#", "#+", " ", "010"} {
					fmt.Fprintf(&out, "%"+flags+string(verb)+"\n", v)
				}
			}
			_ = json.NewEncoder(&out).Encode(v)
			slog.New(slog.NewTextHandler(&out, nil)).Info("x", "to", v)
			slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "to", v)
			_ = template.Must(template.New("").Parse("{{.}} {{printf `%#v` .}}")).Execute(&out, v)
		}
		if at := strings.Index(out.String(), secret); at >= 0 {
			t.Errorf("%s: leaked in %q", ch, out.String()[max(0, at-60):at+10])
		}
		if strings.Contains(strings.ToLower(out.String()), fmt.Sprintf("%x", secret)) {
			t.Errorf("%s: leaked in hexadecimal", ch)
		}
	}
}
