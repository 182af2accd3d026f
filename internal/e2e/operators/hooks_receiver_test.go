package operators

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

// The lines of docs/webhooks.md are those of the receivers here.
func TestThePageOfWebhooksShowsThisReceiver(t *testing.T) {
	page, err := os.ReadFile("../../../docs/webhooks.md")
	apptest.Must(t, err)
	_, rest, _ := strings.Cut(string(page), "```go\n")
	block, _, found := strings.Cut(rest, "```")
	source, err := os.ReadFile("../../app/apptest/hooks.go")
	apptest.Must(t, err)
	if !found || !strings.Contains(string(source), block) {
		t.Errorf("the page shows other lines:\n%s", block)
	}
}

func TestVerifyRefuses(t *testing.T) {
	const secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`
	now := time.Unix(1614265330, 0)
	header := func(change func(http.Header)) http.Header {
		h := http.Header{}
		h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
		h.Set("webhook-timestamp", "1614265330")
		h.Set("webhook-signature", "v1,bm9uZQ== v1a,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		change(h)
		return h
	}
	if !apptest.Verify(secret, header(func(http.Header) {}), []byte(body), now) {
		t.Error("the published vector is refused")
	}
	for name, refused := range map[string]bool{
		"late":             apptest.Verify(secret, header(func(http.Header) {}), []byte(body), now.Add(5*time.Minute+time.Second)),
		"early":            apptest.Verify(secret, header(func(http.Header) {}), []byte(body), now.Add(-5*time.Minute-time.Second)),
		"another body":     apptest.Verify(secret, header(func(http.Header) {}), []byte(body+" "), now),
		"another id":       apptest.Verify(secret, header(func(h http.Header) { h.Set("webhook-id", "x") }), []byte(body), now),
		"another time":     apptest.Verify(secret, header(func(h http.Header) { h.Set("webhook-timestamp", "1614265331") }), []byte(body), now),
		"no time":          apptest.Verify(secret, header(func(h http.Header) { h.Del("webhook-timestamp") }), []byte(body), now),
		"no signature":     apptest.Verify(secret, header(func(h http.Header) { h.Del("webhook-signature") }), []byte(body), now),
		"another secret":   apptest.Verify(apptest.HookSecrets[0], header(func(http.Header) {}), []byte(body), now),
		"a broken secret":  apptest.Verify("whsec_*", header(func(http.Header) {}), []byte(body), now),
		"another's scheme": apptest.Verify(secret, header(func(h http.Header) { h.Set("webhook-signature", "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=") }), []byte(body), now),
	} {
		if refused {
			t.Errorf("%s is taken", name)
		}
	}
}
