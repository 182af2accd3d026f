package verificationtest

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/altcha-org/altcha-lib-go"

	"sendcode/internal/verify/humancheck"
)

// Solve returns the token that solves the work of an offer.
func Solve(tb testing.TB, offer *humancheck.Offer) string {
	tb.Helper()
	c := offer.Work
	found, err := altcha.SolveChallenge(c.Challenge, c.Salt, altcha.SHA256, int(c.MaxNumber), 0, nil)
	if err != nil {
		tb.Fatal(err)
	}
	solution, _ := json.Marshal(altcha.Payload{ // cannot fail
		Algorithm: c.Algorithm, Challenge: c.Challenge, Number: int64(found.Number), Salt: c.Salt, Signature: c.Signature,
	})
	return humancheck.WorkPrefix + base64.StdEncoding.EncodeToString(solution)
}
