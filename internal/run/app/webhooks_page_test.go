package app_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// The Go code in docs/webhooks.md equals that of the tests' receiver. Its function Verify refuses
// events that are old or not signed with the receiver's secret.
func TestThePageOfWebhooksShowsThisReceiver(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/webhooks.md")
	apptest.Must(t, err)
	block := servertest.Blocks(t, string(page), "go")[0]
	source, err := os.ReadFile("apptest/hooks.go")
	apptest.Must(t, err)
	if !strings.Contains(string(source), block) {
		t.Errorf("the page shows other lines:\n%s", block)
	}
	const secret, id, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`
	now := time.Unix(1614265330, 0)
	for name, c := range map[string]struct {
		header, value, body string
		now                 time.Time
		taken               bool
	}{
		"the published vector": {"webhook-id", id, body, now, true},
		"late":                 {"webhook-id", id, body, now.Add(5*time.Minute + time.Second), false},
		"another body":         {"webhook-id", id, body + " ", now, false},
		"another id":           {"webhook-id", "x", body, now, false},
		"another time":         {"webhook-timestamp", "1614265331", body, now, false},
		"no signature":         {"webhook-signature", "", body, now, false},
		"another scheme":       {"webhook-signature", "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", body, now, false},
	} {
		h := http.Header{}
		h.Set("webhook-id", id)
		h.Set("webhook-timestamp", "1614265330")
		h.Set("webhook-signature", "v1,bm9uZQ== v1a,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		h.Set(c.header, c.value)
		if apptest.Verify(secret, h, []byte(c.body), c.now) != c.taken {
			t.Errorf("%s: taken is not %t", name, c.taken)
		}
	}
}
