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

	"sendcode/internal/parts"
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
	if contains(s.printed, phoneNumber[4:]) || standsAlone(s.printed.String(), code) {
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

// With a country, a number may be written as it is dialled there; what it would mean elsewhere does not matter.
func TestNumbersOfACountry(t *testing.T) {
	s := embedded(t).start(1)
	ask := func(to, country string) answer {
		return s.do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"sms","to":%q,"country":%q}`, to, country), withKey("one-text-message"))
	}
	a := ask("0151 23456789", "DE")
	if a.status != http.StatusAccepted || a.To != maskedPhone {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	s.awaitMail(phoneNumber, 1)
	if same := ask(phoneNumber, ""); same.ID != a.ID || same.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same number in another form is another request: %d %s", same.status, same.raw)
	}
	if other := ask("0151 23456789", "AT"); other.status != http.StatusUnprocessableEntity && other.ID == a.ID {
		t.Errorf("%d %s", other.status, other.raw)
	}
	for country, field := range map[string]string{"Germany": "country", "de": "country", "": "to"} {
		a := s.do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"sms","to":"0151 23456789","country":%q}`, country))
		if a.status != http.StatusUnprocessableEntity || a.Field != field {
			t.Errorf("%q: %d %s", country, a.status, a.raw)
		}
	}
}

// What there is to choose from is told, and what is paused is not chosen.
func TestChannelsAreTold(t *testing.T) {
	told := func(yaml string) string {
		s := embedded(t).configured(yaml).start(1)
		return string(s.do(0, http.MethodGet, "/v1/channels", "").raw)
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
	s := embedded(t).configured("apps: [{name: shop, title: " + strings.Repeat("Sehr langer Name ", 3) + "}]\nsms: {origin: shop.example}")
	_, err := New(t.Context(), s.config(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "sms/default/zh-Hans/text.txt takes 2 segments") {
		t.Errorf("%v", err)
	}
}

// A carrier that is away is named in the console, as a mail server is.
func TestCarrierSetAsideIsNamed(t *testing.T) {
	gone := fmt.Sprint("http://127.0.0.1:", parts.FreePort(t)) // where nobody listens, nor begins to
	s := embedded(t).configured(fmt.Sprintf(`
sms:
  countries: [DE]
  carriers:
    - {name: gone, type: http, method: GET, url: "%s/?to={to}&text={text}"}
`, gone)).start(1)
	if aside := s.replicas[0].SetAside(); len(aside) != 0 {
		t.Errorf("at the start it is %+v", aside)
	}
	for n := range 3 {
		if a := s.text(0, fmt.Sprintf("+4915123456%03d", n)); a.status != http.StatusAccepted {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	s.await("the carrier to be set aside", func() bool { return len(s.replicas[0].SetAside()) == 1 })
	if got := s.replicas[0].SetAside()[0]; !got.Carrier || got.Server != "gone" || !strings.Contains(got.Why, "dial: ") || got.Since.IsZero() {
		t.Errorf("%+v", got)
	}
}
