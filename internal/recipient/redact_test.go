package recipient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"
)

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
