package internal_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sendcode/internal/hooks"
)

func readHook(t *testing.T, name string) []byte {
	t.Helper()
	body, err := os.ReadFile("hooks/testdata/" + name + ".json")
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
		h := hooks.Hook{Server: hooks.SupabaseEmail}
		if name == "sms" {
			h.Server = hooks.SupabaseSMS
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
	id := func(body []byte) string { r, _ := hooks.Hook{Server: hooks.SupabaseEmail}.Parse(body); return r.ID }
	signup, old := readHook(t, "signup"), readHook(t, "magiclink_without_metadata")
	if id(signup) != "1d2e8bd6-7b3c-4c5a-9a71-000000000001" || len(id(old)) != 64 ||
		id(old) != id(readHook(t, "magiclink_without_metadata")) {
		t.Errorf("IDs %q and %q", id(signup), id(old))
	}
	if other := strings.Replace(string(old), "305805", "305806", 1); id([]byte(other)) == id(old) {
		t.Error("another code is the same request")
	}
}

func TestHookBodiesOfNoHook(t *testing.T) {
	for _, body := range []string{
		``, `{`, `[]`, `{}`, `{"user":{"email":"a@example.com"}}`,
		`{"user":{"email":"a@example.com"},"email_data":{"token":"123456"}}`,
		`{"user":{"email":""},"email_data":{"token":"123456","email_action_type":"signup"}}`,
		`{"user":{"email":"a@example.com"},"email_data":{"token":"123456","token_new":"123457","email_action_type":"email_change"}}`,
		`{"user":{"email":7},"email_data":{"token":"123456","email_action_type":"signup"}}`,
	} {
		if r, err := (hooks.Hook{Server: hooks.SupabaseEmail}).Parse([]byte(body)); err == nil {
			t.Errorf("mail: %s is %+v", body, r)
		}
		if r, err := (hooks.Hook{Server: hooks.SupabaseSMS}).Parse([]byte(body)); err == nil {
			t.Errorf("text message: %s is %+v", body, r)
		}
	}
	if r, err := (hooks.Hook{Server: hooks.SupabaseSMS}).Parse([]byte(`{"user":{"phone":"4915123456789"},"sms":{}}`)); err == nil {
		t.Errorf("no code: %+v", r)
	}
}

// A signature that another implementation made: `openssl dgst -sha256 -mac HMAC` over ID, time and
// body.
func TestASignatureOfAnotherImplementation(t *testing.T) {
	h := hooks.Hook{Server: hooks.SupabaseSMS,
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
