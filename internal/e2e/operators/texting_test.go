package operators

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/app"
	"sendcode/internal/app/apptest"
)

const (
	phoneNumber = "+4915123456789"
	maskedPhone = "+49 151•••789"
)

// configured writes the whole file.
func configured(s *apptest.Stack, yaml string) *apptest.Stack {
	s.Helper()
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		s.Fatal(err)
	}
	s.Env["SENDCODE_CONFIG"] = file
	return s
}

func text(s *apptest.Stack, i int, to string) apptest.Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"sms","to":%q,"locale":"en"}`, to))
}

var codeInText = regexp.MustCompile(`\b\d{6}\b`)

// Beside the dev mailbox everybody can try text messages: they arrive there.
func TestTextMessagesWithoutACarrier(t *testing.T) {
	s := apptest.Embedded(t).Start(1)
	a := text(s, 0, phoneNumber)
	if a.StatusCode != http.StatusAccepted || a.To != maskedPhone {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	got := s.AwaitMail(phoneNumber, 1)[0]
	code := codeInText.FindString(got.Text)
	if got.Text != code+" is your sendcode code. It is valid for 10 min. Do not share it with anyone." {
		t.Errorf("%q", got.Text)
	}
	box := s.Do(0, http.MethodGet, "/mailbox", "")
	if !strings.Contains(string(box.Raw), "Text message") || !strings.Contains(string(box.Raw), got.Text) {
		t.Error("the page of the mailbox does not show it")
	}
	if c := s.Check(0, a.ID, code); !c.Valid {
		t.Errorf("%s", c.Raw)
	}
	asAdmin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+apptest.Token) }
	list := s.Do(0, http.MethodPost, "/v1/admin/search", fmt.Sprintf(`{"channel":"sms","to":%q}`, phoneNumber), asAdmin)
	if !strings.Contains(string(list.Raw), a.Send.ID) || strings.Contains(string(list.Raw), phoneNumber) {
		t.Errorf("%s", list.Raw)
	}
	if again := text(s, 0, phoneNumber); again.StatusCode != http.StatusTooManyRequests || again.BlockedBy != "minute" {
		t.Errorf("%d %s", again.StatusCode, again.Raw)
	}
	if apptest.Contains(s.Printed, phoneNumber[4:]) || apptest.StandsAlone(s.Printed.String(), code) {
		t.Error("a number or a code was logged")
	}
}

// What there is to choose from is told, and what is paused is not chosen.
func TestChannelsAreTold(t *testing.T) {
	told := func(yaml string) string {
		s := configured(apptest.Embedded(t), yaml).Start(1)
		return string(s.Do(0, http.MethodGet, "/v1/channels", "").Raw)
	}
	const german = `{"channel":"sms","countries":[{"country":"DE","dial_code":"+49","example":"01512 3456789"}]}`
	for yaml, want := range map[string]string{
		`sms: {countries: [DE, "001"]}`:                                                            `{"channels":[{"channel":"email"},` + german + `]}`,
		"sms: {countries: [DE]}\npaused: [{channel: email, reason: x}]":                            `{"channels":[` + german + `]}`,
		"sms: {countries: [DE]}\npaused: [{channel: sms, purpose: default, reason: x}]":            `{"channels":[{"channel":"email"}]}`,
		"sms: {countries: [DE]}\npaused: [{channel: sms, reason: x}, {channel: email, reason: x}]": `{"channels":[]}`,
	} {
		if got := strings.TrimSpace(told(yaml)); got != want {
			t.Errorf("%s: %s", yaml, got)
		}
	}
	if all := told("{}"); strings.Count(all, `"country"`) < 200 || !strings.Contains(all, `{"country":"CN","dial_code":"+86"`) {
		t.Errorf("%s", all)
	}
}

// A title that makes a text longer than it may be is found at the start.
func TestTextsThatTakeTooManySegments(t *testing.T) {
	s := configured(apptest.Embedded(t), "apps: [{name: shop, title: "+strings.Repeat("Sehr langer Name ", 3)+"}]\nsms: {origin: shop.example}")
	_, err := app.New(t.Context(), s.Config(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "sms/default/zh-Hans/text.txt takes 2 segments") {
		t.Errorf("%v", err)
	}
}
