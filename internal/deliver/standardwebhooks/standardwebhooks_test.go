package standardwebhooks_test

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/kit/servertest"
)

// The reference libraries of the specification are tested with this vector
// (libraries/go/webhook_test.go, TestWebhookSign).
func TestSignAgainstThePublishedVector(t *testing.T) {
	secret, _ := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	at := time.Unix(1614265330, 999)
	got := standardwebhooks.Sign([][]byte{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, []byte(`{"test": 2432232314}`))
	servertest.Same(t, "signature", got, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	// While secrets are replaced, each secret gives one signature, the first secret first.
	both := strings.Split(standardwebhooks.Sign([][]byte{secret, []byte("another secret of 24 bytes")}, "msg_p5jXN8AQM9LWM0D4loKWxJek",
		at, []byte(`{"test": 2432232314}`)), " ")
	if len(both) != 2 || both[0] != got || both[1] == got || !strings.HasPrefix(both[1], "v1,") {
		t.Errorf("%q", both)
	}
}

func TestStandardWebhooksVerify(t *testing.T) {
	now, body := time.Unix(1_800_000_000, 0), []byte(`{"a":1}`)
	one, two, other := []byte("the first secret of a sender"), []byte("the second secret of a sender"),
		[]byte("a secret of nobody here......")
	secrets := [][]byte{one, two}
	sign := func(by ...[]byte) string { return standardwebhooks.Sign(by, "id-1", now, body) }
	supabase := strings.ReplaceAll(sign(other, one), " ", ", ") // Supabase joins signatures by a comma and a space
	for name, c := range map[string]struct {
		id, signature string
		age           time.Duration
		body          string
		want          bool
	}{
		"one":                       {"id-1", sign(one), 0, `{"a":1}`, true},
		"the other secret":          {"id-1", sign(two), 0, `{"a":1}`, true},
		"several":                   {"id-1", sign(other, two), 0, `{"a":1}`, true},
		"the first of two, commas":  {"id-1", strings.ReplaceAll(sign(one, other), " ", ", "), 0, `{"a":1}`, true},
		"the second of two, commas": {"id-1", supabase, 0, `{"a":1}`, true},
		"asymmetric beside":         {"id-1", "v1a,AAAA " + sign(one), 0, `{"a":1}`, true},
		"another secret":            {"id-1", sign(other), 0, `{"a":1}`, false},
		"another body":              {"id-1", sign(one), 0, `{"a":2}`, false},
		"another id":                {"id-2", sign(one), 0, `{"a":1}`, false},
		"no id":                     {"", sign(one), 0, `{"a":1}`, false},
		"old":                       {"id-1", sign(one), standardwebhooks.MaxAge + time.Second, `{"a":1}`, false},
		"of the future":             {"id-1", sign(one), -standardwebhooks.MaxAge - time.Second, `{"a":1}`, false},
		"nearly old":                {"id-1", sign(one), standardwebhooks.MaxAge, `{"a":1}`, true},
		"none":                      {"id-1", "", 0, `{"a":1}`, false},
		"another version":           {"id-1", "v2" + sign(one)[2:], 0, `{"a":1}`, false},
		"no base64":                 {"id-1", "v1,*", 0, `{"a":1}`, false},
	} {
		h := http.Header{}
		h.Set("Webhook-Id", c.id)
		h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		h.Set("Webhook-Signature", c.signature)
		verify := func(by [][]byte, at time.Time) bool {
			return standardwebhooks.Verify(h, standardwebhooks.HeaderPrefix, []byte(c.body), by, at)
		}
		servertest.Same(t, name, verify(secrets, now.Add(c.age)), c.want)
		servertest.Same(t, name+", by no secret", verify(nil, now), false)
		h.Set("Webhook-Timestamp", "soon")
		servertest.Same(t, name+", at no time", verify(secrets, now), false)
	}
}

// A forged request costs as much as an honest one: one MAC for each secret, and none if the header
// has more than eight signatures. A MAC has at least five allocations, a signature at most two.
func TestVerifyComputesOneMACForEachSecret(t *testing.T) {
	now, body := time.Unix(1_800_000_000, 0), []byte(`{"a":1}`)
	secrets := [][]byte{[]byte("the first secret of a sender"), []byte("the second secret of a sender")}
	right := standardwebhooks.Sign(secrets[1:], "id-1", now, body)
	forged := standardwebhooks.Sign([][]byte{[]byte("a secret of no sender here...")}, "id-1", now, body)
	verify := func(signatures string) (right bool, allocations float64) {
		h := http.Header{
			"Webhook-Id": {"id-1"}, "Webhook-Signature": {signatures},
			"Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)},
		}
		allocations = testing.AllocsPerRun(10, func() {
			right = standardwebhooks.Verify(h, standardwebhooks.HeaderPrefix, body, secrets, now)
		})
		return right, allocations
	}
	_, one := verify(forged)
	_, none := verify("")
	none += 2 // less than the allocations of one MAC
	for name, c := range map[string]struct {
		signatures string
		want       bool
		most       float64
	}{
		"eight forged":             {strings.Repeat(forged+" ", 8), false, one + 2*8},
		"the last of eight":        {strings.Repeat(forged+" ", 7) + right, true, one + 2*8},
		"the first of nine":        {right + strings.Repeat(" "+forged, 8), false, none},
		"the ninth":                {strings.Repeat(forged+" ", 8) + right, false, none},
		"as many as a header has":  {strings.Repeat(forged+" ", 20_000), false, none},
		"as many, all of them bad": {strings.Repeat("v1,* ", 200_000), false, none},
	} {
		if got, allocations := verify(c.signatures); got != c.want || allocations > c.most {
			t.Errorf("%s: %v with %v allocations, want %v with at most %v", name, got, allocations, c.want, c.most)
		}
	}
}
