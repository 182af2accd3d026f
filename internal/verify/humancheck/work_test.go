package humancheck

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/altcha-org/altcha-lib-go"

	"sendcode/internal/codes/keys"
	"sendcode/internal/kit/servertest"
)

func ring(t *testing.T, entries ...string) *keys.Ring {
	t.Helper()
	text := ""
	for i, e := range entries {
		if i > 0 {
			text += ","
		}
		text += e
	}
	r, err := keys.Parse(text)
	servertest.OK(t, err)
	return r
}

func encode(t *testing.T, p altcha.Payload) string {
	t.Helper()
	text, err := json.Marshal(p)
	servertest.OK(t, err)
	return base64.StdEncoding.EncodeToString(text)
}

// A solution is valid for its binding until it expires, even if the key is rotated. Of 100,000
// forged solutions none is valid.
func TestCheckWork(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	old, next := keys.GenerateEntry(), keys.GenerateEntry()
	first := ring(t, old)
	c, err := NewWorkChallenge(first, "shop ana", 1000, now)
	servertest.OK(t, err)
	found, err := altcha.SolveChallenge(c.Challenge, c.Salt, altcha.SHA256, 1000, 0, nil)
	if err != nil || found == nil {
		t.Fatal("no solution", err)
	}
	right := altcha.Payload{
		Algorithm: c.Algorithm, Challenge: c.Challenge, Number: int64(found.Number), Salt: c.Salt,
		Signature: c.Signature,
	}
	change := func(f func(*altcha.Payload)) string { p := right; f(&p); return encode(t, p) }
	for what, row := range map[string]struct {
		ring    *keys.Ring
		encoded string
		binding string
		at      time.Duration
		want    Reason
	}{
		"right":                 {first, encode(t, right), "shop ana", WorkChallengeLife, ""},
		"after a rotation":      {ring(t, next, old), encode(t, right), "shop ana", 0, ""},
		"of a key that is gone": {ring(t, next), encode(t, right), "shop ana", 0, Rejected},
		"too late":              {first, encode(t, right), "shop ana", WorkChallengeLife + time.Second, Expired},
		"of another":            {first, encode(t, right), "shop ben", 0, Rejected},
		"a wrong number":        {first, change(func(p *altcha.Payload) { p.Number++ }), "shop ana", 0, Rejected},
		"a later end":           {first, change(func(p *altcha.Payload) { p.Salt = "expires=9&" + p.Salt }), "shop ana", 0, Rejected},
		"a digit moved":         {first, change(func(p *altcha.Payload) { p.Salt = p.Salt[:len(p.Salt)-1] }), "shop ana", 0, Rejected},
		"a weaker hash":         {first, change(func(p *altcha.Payload) { p.Algorithm = "SHA-1" }), "shop ana", 0, Rejected},
		"another signature":     {first, change(func(p *altcha.Payload) { p.Signature = p.Challenge }), "shop ana", 0, Rejected},
		"no JSON":               {first, "bnVsbA==", "shop ana", 0, Rejected},
		"no base64":             {first, "!", "shop ana", 0, Rejected},
	} {
		signature, got := CheckWorkSolution(row.ring, row.encoded, row.binding, now.Add(row.at))
		if got != row.want || (signature == c.Signature) != (row.want == "") {
			t.Errorf("%s: %q, want %q", what, got, row.want)
		}
	}
	for n := range int64(100_000) {
		forged := right
		forged.Number = int64(found.Number) + 1 + n
		if signature, got := CheckWorkSolution(first, encode(t, forged), "shop ana", now); got != Rejected || signature != "" {
			t.Fatalf("number %d: %q", forged.Number, got)
		}
	}
}
