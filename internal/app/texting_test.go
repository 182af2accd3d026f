package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	phoneNumber = "+4915123456789"
	maskedPhone = "+49 151•••789"
)

// configured writes the whole file.
func (s *stack) configured(yaml string) *stack {
	s.Helper()
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		s.Fatal(err)
	}
	s.env["SENDCODE_CONFIG"] = file
	return s
}

func (s *stack) text(i int, to string) answer {
	s.Helper()
	return s.do(i, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"sms","to":%q,"locale":"en"}`, to))
}

var codeInText = regexp.MustCompile(`\b\d{6}\b`)

// Beside the dev mailbox everybody can try text messages: they arrive there.
func TestTextMessagesWithoutACarrier(t *testing.T) {
	s := embedded(t).start(1)
	a := s.text(0, phoneNumber)
	if a.status != http.StatusAccepted || a.To != maskedPhone {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	got := s.awaitMail(phoneNumber, 1)[0]
	code := codeInText.FindString(got.text)
	if got.text != code+" is your sendcode code. It is valid for 10 min. Do not share it with anyone." {
		t.Errorf("%q", got.text)
	}
	box := s.do(0, http.MethodGet, "/mailbox", "")
	if !strings.Contains(string(box.raw), "Text message") || !strings.Contains(string(box.raw), got.text) {
		t.Error("the page of the mailbox does not show it")
	}
	if c := s.check(0, a.ID, code); !c.Valid {
		t.Errorf("%s", c.raw)
	}
	asAdmin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	list := s.do(0, http.MethodPost, "/v1/admin/search", fmt.Sprintf(`{"channel":"sms","to":%q}`, phoneNumber), asAdmin)
	if !strings.Contains(string(list.raw), a.Send.ID) || strings.Contains(string(list.raw), phoneNumber) {
		t.Errorf("%s", list.raw)
	}
	if again := s.text(0, phoneNumber); again.status != http.StatusTooManyRequests || again.BlockedBy != "minute" {
		t.Errorf("%d %s", again.status, again.raw)
	}
	if strings.Contains(s.printed.String(), phoneNumber[4:]) || strings.Contains(s.printed.String(), code) {
		t.Error("a number or a code was logged")
	}
}

func TestCountriesOfTextMessages(t *testing.T) {
	s := embedded(t).configured("sms: {countries: [US]}").start(1)
	for to, want := range map[string]string{"+18765550123": "country_not_served", phoneNumber: "country_not_served", "+49 900 1234567": "number_not_allowed", "nobody": "invalid_character"} {
		a := s.text(0, to)
		if a.status != http.StatusUnprocessableEntity || a.Field != "to" || !strings.Contains(string(a.raw), want) || strings.Contains(string(a.raw), to) {
			t.Errorf("%s: %d %s", to, a.status, a.raw)
		}
	}
	if a := s.text(0, "+12025550123"); a.status != http.StatusAccepted {
		t.Errorf("%d %s", a.status, a.raw)
	}
	s.awaitMail("+12025550123", 1)
	if n := len(s.mails()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// A title that makes a text longer than it may be is found at the start.
func TestTextsThatTakeTooManySegments(t *testing.T) {
	s := embedded(t).configured("apps: [{name: shop, title: " + strings.Repeat("Sehr langer Name ", 3) + "}]\nsms: {origin: shop.example}")
	_, err := New(t.Context(), s.config(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "sms/default/zh-Hans/text.txt takes 2 segments") {
		t.Errorf("%v", err)
	}
}
