package webhook

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

// The vector that the specification's reference libraries are tested with (libraries/go/webhook_test.go, TestWebhookSign).
func TestSignAgainstThePublishedVector(t *testing.T) {
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	at, body := time.Unix(1614265330, 999), []byte(`{"test": 2432232314}`)
	if got := Sign([][]byte{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// While secrets are exchanged: one signature each, the first secret's first.
	both := strings.Split(Sign([][]byte{secret, []byte("another secret of 24 bytes")}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body), " ")
	if len(both) != 2 || both[0] != want || both[1] == want || !strings.HasPrefix(both[1], "v1,") {
		t.Errorf("%q", both)
	}
}
