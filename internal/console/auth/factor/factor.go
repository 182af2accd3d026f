// Package factor computes the second factor of a login: codes of an authenticator app (RFC 6238), the QR code that its key is read
// from, and recovery codes. It stores nothing.
package factor

import (
	"crypto/rand"
	"crypto/sha256"
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

// Period is the time step of RFC 6238. A code is valid for one step more on either side, since clocks differ (section 5.2).
const (
	Period    = 30 * time.Second
	tolerance = 1
)

// Every authenticator app knows these, and some know no others.
var codeOptions = totp.ValidateOpts{Period: uint(Period / time.Second), Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}

// secretSize is in bytes (RFC 4226 section 4, R6).
const secretSize = 20

// NewSecret returns a key of 160 random bits. The caller stores it encrypted.
func NewSecret() []byte {
	secret := make([]byte, secretSize)
	rand.Read(secret) // never fails: the program stops when the system has no randomness
	return secret
}

// Spell returns a secret as people type it and apps read it.
func Spell(secret []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
}

// StepOf returns the time step, at most one from now and later than after, whose code was typed. False: there is none.
func StepOf(secret []byte, typed string, now time.Time, after int64) (int64, bool) {
	middle := now.Unix() / int64(Period/time.Second)
	found, ok := int64(0), false
	for step := middle - tolerance; step <= middle+tolerance; step++ {
		code, err := totp.GenerateCodeCustom(Spell(secret), time.Unix(step*int64(Period/time.Second), 0), codeOptions)
		if err == nil && subtle.ConstantTimeCompare([]byte(code), []byte(typed)) == 1 && step > after && !ok {
			found, ok = step, true
		}
	}
	return found, ok
}

// KeyAddress returns the otpauth URL for the QR code.
func KeyAddress(account string, secret []byte) (string, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: "sendcode", AccountName: account, Secret: secret, Period: codeOptions.Period, Digits: codeOptions.Digits,
		Algorithm: codeOptions.Algorithm,
	})
	if err != nil {
		return "", err
	}
	return key.URL(), nil
}

// Picture is a QR code: the side with its margin of four (ISO/IEC 18004), and a path of the dark squares.
type Picture struct {
	Side int
	Path template.HTMLAttr
}

// Draw returns the QR code of a text.
func Draw(text string) (Picture, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return Picture{}, err
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
	return Picture{size + 2*margin, template.HTMLAttr(`d="` + path.String() + `"`)}, nil // digits and letters alone
}

// Recovery codes replace a lost device. Each has 80 random bits.
const (
	RecoveryCodes = 10
	RecoverySize  = 16 // letters and digits of base32
)

// NewRecoveryCodes returns new codes to show once, and the hashes to store.
func NewRecoveryCodes(account string) (shown []string, kept [][32]byte) {
	for range RecoveryCodes {
		code := strings.ToLower(rand.Text()[:RecoverySize])
		shown = append(shown, code[:4]+"-"+code[4:8]+"-"+code[8:12]+"-"+code[12:])
		kept = append(kept, RecoveryHash(account, code))
	}
	return shown, kept
}

// RecoveryHash returns the stored hash of an account's recovery code.
func RecoveryHash(account, code string) [32]byte {
	return sha256.Sum256([]byte("recovery\x00" + account + "\x00" + code))
}

// Plain removes the characters that people type between those of a code.
func Plain(typed string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "", "\u00a0", "").Replace(typed))
}
