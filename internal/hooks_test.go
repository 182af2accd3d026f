package internal_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/hooks"
)

func readHook(t *testing.T, name string) []byte {
	t.Helper()
	body, err := os.ReadFile("http/hooks/testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// What is read of each body that Supabase posts.
func TestSupabaseBodies(t *testing.T) {
	for name, want := range map[string]string{
		"signup":                     "signup 203.0.113.7 [{ana@example.com 305805}]",
		"email_change_secure":        "email_change 203.0.113.7 [{ana@example.com 305805} {ana.new@example.com 781440}]",
		"email_change":               "email_change 203.0.113.7 [{ana.new@example.com 781440}]",
		"notification":               "password_changed_notification 203.0.113.7 []",
		"sms":                        "sms 203.0.113.7 [{+4915123456789 561166}]",
		"magiclink_without_metadata": "magiclink invalid IP [{ana@example.com 305805}]",
	} {
		h := hooks.Hook{Kind: hooks.SupabaseEmail}
		if name == "sms" {
			h.Kind = hooks.SupabaseSMS
		}
		r, err := h.Parse(readHook(t, name))
		if got := fmt.Sprint(r.Action, " ", r.IP, " ", r.Messages); err != nil || got != want || r.ID == "" {
			t.Errorf("%s: %s %q, %v; want %s", name, got, r.ID, err, want)
		}
	}
}

// A repetition is the same request, also from a server that names none, and another body is another
// one.
func TestARepetitionIsTheSameRequest(t *testing.T) {
	id := func(body []byte) string { r, _ := hooks.Hook{Kind: hooks.SupabaseEmail}.Parse(body); return r.ID }
	signup, old := readHook(t, "signup"), readHook(t, "magiclink_without_metadata")
	if id(signup) != "1d2e8bd6-7b3c-4c5a-9a71-000000000001" || len(id(old)) != 64 ||
		id(old) != id(readHook(t, "magiclink_without_metadata")) {
		t.Errorf("IDs %q and %q", id(signup), id(old))
	}
	if other := strings.Replace(string(old), "305805", "305806", 1); id([]byte(other)) == id(old) {
		t.Error("another code is the same request")
	}
}

// parsed is what a hook makes of a body: who gets which code, or what the body does not say.
func parsed(kind hooks.HookKind, body string) string {
	r, err := hooks.Hook{Kind: kind}.Parse([]byte(body))
	if err != nil {
		return "400"
	}
	if said, lacks := strings.CutPrefix(r.Missing, "The sign-in service did not say "); lacks {
		what, _, _ := strings.Cut(said, ",")
		return "422 " + what
	}
	var all []string
	for _, m := range r.Messages {
		all = append(all, m.To+" "+m.Code)
	}
	return strings.Join(all, ", ")
}

// The bodies are of three versions of supabase/auth, by what its code fills in: before v2.160 a change
// without the old address's consent had a hash alone; before v2.180 no body named the number.
func TestParseBodiesOfSupabase(t *testing.T) {
	files, err := filepath.Glob("http/hooks/testdata/supabase-v*.json")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var cases []struct {
			Name, Want string
			Hook       hooks.HookKind
			Body       json.RawMessage
		}
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &cases) != nil {
			t.Fatal(file, err)
		}
		for _, c := range cases {
			if got := parsed(c.Hook, string(c.Body)); got != c.Want {
				t.Errorf("%s: %s: %s, want %s", file, c.Name, got, c.Want)
			}
		}
	}
}

// Bodies that no version makes: fields that are missing, null, empty or of another type.
func TestParseOddBodiesOfSupabase(t *testing.T) {
	const noCode, nowhere, noAction = "422 which code to send", "422 where to send the code", "422 what the code is for"
	mail := func(user, data string) string { return `{"user":{` + user + `},"email_data":{` + data + `}}` }
	change := func(user, tokens string) string { return mail(user, `"email_action_type":"email_change",`+tokens) }
	both := `"email":"a@example.com","new_email":"b@example.com"`
	for body, want := range map[string]string{
		change(both, `"token":"","token_new":"654321"`):                                          "b@example.com 654321",
		change(both, `"token":null,"token_new":"654321"`):                                        "b@example.com 654321",
		change(both, `"token":"123456","token_new":null`):                                        "b@example.com 123456",
		change(both, `"token":"123456","token_new":" "`):                                         "b@example.com 123456",
		change(both, `"token":"","token_new":"","token_hash":"abc"`):                             noCode,
		change(`"email":"","new_email":"b@example.com"`, `"token":"123456","token_new":"65432"`): "b@example.com 65432",
		change(`"email":null,"new_email":"b@example.com"`, `"token":"123456"`):                   "b@example.com 123456",
		change(`"new_email":"b@example.com"`, `"token":"123456"`):                                "b@example.com 123456",
		change(`"email":"a@example.com"`, `"token":"123456"`):                                    nowhere,
		change(`"email":"a@example.com","new_email":""`, `"token":"123456","token_new":"65432"`): nowhere,
		mail(both, `"email_action_type":"email_change_new","token":"123456"`):                    "b@example.com 123456",
		mail(both, `"email_action_type":"email_change_current","token":"123456"`):                "a@example.com 123456",
		mail(both, `"email_action_type":"a_kind_to_come","token":"123456","more":{"x":[1]}`):     "a@example.com 123456",
		mail(both, `"email_action_type":"signup","token":123456`):                                "a@example.com 123456",
		mail(both, `"email_action_type":"signup","token":1e5`):                                   noCode,
		mail(both, `"email_action_type":"signup","token":{"a":1}`):                               noCode,
		mail(both, `"email_action_type":"invite","token_hash":"abc"`):                            noCode,
		mail(both, `"email_action_type":"a_kind_to_come_notification","token":""`):               "",
		mail(both, `"email_action_type":null,"token":"123456"`):                                  noAction,
		mail(`"email":["a@example.com"]`, `"email_action_type":"signup","token":"123456"`):       nowhere,
		`{"user":null,"email_data":{"email_action_type":"signup","token":"123456"}}`:             nowhere,
		`{"user":{"email":"a@example.com"},"email_data":null}`:                                   "400",
		`{"user":{"phone":"4915123456702"},"sms":{"otp":"123456"}}`:                              "400",
		`{`:  "400",
		`[]`: "400",
	} {
		if got := parsed(hooks.SupabaseEmail, body); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	text := func(user, sms string) string { return `{"user":{` + user + `},"sms":{` + sms + `}}` }
	numbers := `"phone":"4915123456702","new_phone":"4915123456703"`
	for body, want := range map[string]string{
		text(numbers, `"otp":"123402"`):                                                         "+4915123456703 123402",
		text(numbers, `"otp":"123402","phone":""`):                                              "+4915123456703 123402",
		text(numbers, `"otp":"123402","phone":null`):                                            "+4915123456703 123402",
		text(`"phone":"","new_phone":"4915123456703"`, `"otp":"123402"`):                        "+4915123456703 123402",
		text(`"phone":null,"new_phone":4915123456703`, `"otp":123402`):                          "+4915123456703 123402",
		text(`"phone":"4915123456702","new_phone":""`, `"otp":"123402"`):                        "+4915123456702 123402",
		text(`"phone":"+4915123456702"`, `"otp":"123402"`):                                      "+4915123456702 123402",
		text(numbers, `"otp":" 123402 ","phone":" 49 151 23456704","sms_type":"whatsapp"`):      "+49 151 23456704 123402",
		text(numbers, `"otp":"123402","phone":"4915123456704","channel":"whatsapp"`):            "+4915123456704 123402",
		text(numbers, `"otp":"123402","sms_type":"mfa"`):                                        nowhere,
		text(numbers+`,"factors":[{"phone":"4915123456704"}]`, `"otp":"1234","sms_type":"mfa"`): "+4915123456704 1234",
		text(``, `"otp":"123402"`):                                                              nowhere,
		text(numbers, `"otp":""`):                                                               noCode,
		text(numbers, `"otp":null`):                                                             noCode,
		text(numbers, `"phone":"4915123456704"`):                                                noCode,
		`{"user":{` + numbers + `}}`:                                                            "400",
		`{"user":"ana","sms":{"otp":"123402"}}`:                                                 "400",
		`{"user":null,"sms":{"otp":"123402"}}`:                                                  nowhere,
		`{"sms":{"otp":"123402","phone":"49151"}}`:                                              "+49151 123402",
	} {
		if got := parsed(hooks.SupabaseSMS, body); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// A signature that another implementation made: `openssl dgst -sha256 -mac HMAC` over ID, time and
// body.
func TestASignatureOfAnotherImplementation(t *testing.T) {
	h := hooks.Hook{Kind: hooks.SupabaseSMS,
		Secrets: [][]byte{[]byte("another secret, of 32 bytes or so"), []byte("a secret of 32 bytes for a hook!!")}}
	header := http.Header{"Webhook-Id": {"4d8b7a3e-8a4f-4e0e-9d51-3c5a9a717b3c"}, "Webhook-Timestamp": {"1778763393"},
		"Webhook-Signature": {
			"v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=, v1,OHs0RKqKOXFTu3EU0Qkgcsx9ElUsDs+5Z3aNjBk6Jp0="}}
	body := readHook(t, "sms")
	if !h.Verify(header, body, time.Unix(1778763393+200, 0)) {
		t.Error("a right signature is wrong")
	}
	if h.Verify(header, append(body, ' '), time.Unix(1778763393+200, 0)) ||
		h.Verify(header, body, time.Unix(1778763393+301, 0)) {
		t.Error("another body, or an old request, is right")
	}
}
