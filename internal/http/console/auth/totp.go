package auth

import (
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/boombuler/barcode/qr"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
)

// totpPeriod is the time step of RFC 6238. totpTolerance is how many steps before and after the
// present one are accepted, since clocks differ (section 5.2).
const (
	totpPeriod    = 30 * time.Second
	totpTolerance = 1
)

// Some authenticator apps support no other options than totpOptions.
var totpOptions = totp.ValidateOpts{
	Period: uint(totpPeriod / time.Second), Digits: otp.DigitsSix,
	Algorithm: otp.AlgorithmSHA1,
}

// totpSecretSize is in bytes (RFC 4226 section 4, R6).
const totpSecretSize = 20

// encodeSecret returns a secret in base32, the form that people type and apps read.
func encodeSecret(secret []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
}

// matchTOTPStep returns the time step whose code equals the typed text. The step is at most
// totpTolerance steps away from the current step, and greater than after, the step that was used
// last. If there is no such step, it returns false.
func matchTOTPStep(secret []byte, typed string, now time.Time, after int64) (int64, bool) {
	middle := now.Unix() / int64(totpPeriod/time.Second)
	found, ok := int64(0), false
	for step := middle - totpTolerance; step <= middle+totpTolerance; step++ {
		code, err := totp.GenerateCodeCustom(encodeSecret(secret), time.Unix(step*int64(totpPeriod/time.Second), 0),
			totpOptions)
		if err == nil && subtle.ConstantTimeCompare([]byte(code), []byte(typed)) == 1 && step > after && !ok {
			found, ok = step, true
		}
	}
	return found, ok
}

// otpauthURL returns the otpauth URL for the QR code. An authenticator app may keep only one secret
// for each issuer and account. The issuer in the URL contains the console's host, so that a person
// may have accounts of the same name in two consoles, such as a test console and the real one.
func otpauthURL(host, account string, secret []byte) (string, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: "sendcode " + strings.ReplaceAll(host, ":", " "), AccountName: account, Secret: secret, Period: totpOptions.Period,
		Digits:    totpOptions.Digits,
		Algorithm: totpOptions.Algorithm,
	})
	if err != nil {
		return "", err
	}
	return key.URL(), nil
}

// qrCode is a QR code for SVG. Side is the length of a side, with a margin of four modules (ISO/IEC
// 18004). Path is a path of the dark modules.
type qrCode struct {
	Side int
	Path template.HTMLAttr
}

func drawQRCode(text string) (qrCode, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return qrCode{}, err
	}
	const margin = 4
	var path strings.Builder
	size := code.Bounds().Dx()
	for y := range size {
		for x := range size {
			if r, _, _, _ := code.At(x, y).RGBA(); r == 0 {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x+margin, y+margin)
			}
		}
	}
	return qrCode{size + 2*margin, template.HTMLAttr(`d="` + path.String() + `"`)}, nil // the path has no quotes
}
