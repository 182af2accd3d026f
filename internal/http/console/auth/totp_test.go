package auth

import (
	"testing"
	"time"

	"sendcode/internal/codes/code/codetest"
)

// The codes are the last six digits in RFC 6238's appendix B, for SHA-1.
func TestCodesOfRFC6238(t *testing.T) {
	secret := []byte("12345678901234567890")
	for at, code := range map[int64]string{59: "287082", 1111111109: "081804", 20000000000: "353130"} {
		now := time.Unix(at, 0)
		if step, ok := matchTOTPStep(secret, code, now, 0); !ok || step != at/30 {
			t.Errorf("at %d: %d, %v", at, step, ok)
		}
		for _, shift := range []time.Duration{-totpPeriod, totpPeriod} {
			if step, ok := matchTOTPStep(secret, code, now.Add(shift), 0); !ok || step != at/30 {
				t.Errorf("at %d, on a clock that is %v off: %d, %v", at, shift, step, ok)
			}
			if _, ok := matchTOTPStep(secret, code, now.Add(2*shift), 0); ok && now.Add(2*shift).Unix() > 0 {
				t.Errorf("at %d: holds %v on", at, 2*shift)
			}
		}
		if _, ok := matchTOTPStep(secret, code, now, at/30); ok {
			t.Errorf("at %d: twice", at)
		}
		var wrong []string
		for i := range code {
			wrong = append(wrong, codetest.Wrong(code, i))
		}
		for _, wrong := range append(wrong, "", "000000", code[1:], code+"0", " "+code) {
			if _, ok := matchTOTPStep(secret, wrong, now, 0); ok {
				t.Errorf("at %d: %q", at, wrong)
			}
		}
	}
}
