package consoletest

import (
	"encoding/base64"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
	"golang.org/x/crypto/argon2"

	"sendcode/internal/http/openid"
	"sendcode/internal/http/openid/openidtest"
)

// SmallHash returns a password hash that is cheap to compute.
func SmallHash(password string) string {
	const salt = "0123456789abcdef"
	sum := argon2.IDKey([]byte(password), []byte(salt), 1, 64, 1, 32)
	encode := base64.RawStdEncoding.EncodeToString
	return "$argon2id$v=19$m=64,t=1,p=1$" + encode([]byte(salt)) + "$" + encode(sum)
}

// Device is an authenticator app.
type Device struct {
	*testing.T
	Clock  *Clock
	Secret string
}

const period = 30 * time.Second

// Code returns the code that the app shows.
func (d Device) Code() string {
	d.Helper()
	code, err := totp.GenerateCode(d.Secret, d.Clock.Now())
	if err != nil {
		d.Fatal(err)
	}
	return code
}

// Wrong returns a code that is wrong now; a constant code could be right by chance.
func (d Device) Wrong() string {
	d.Helper()
	for n := range 10 {
		code := strings.Repeat(strconv.Itoa(n), 6)
		if ok, _ := totp.ValidateCustom(code, d.Secret, d.Clock.Now(), totp.ValidateOpts{Period: 30, Skew: 1, Digits: otp.DigitsSix}); !ok {
			return code
		}
	}
	panic("more right codes than there are")
}

// Next moves the clock by one time step and returns the code of that step, which was not used yet.
func (d Device) Next() string {
	d.Helper()
	d.Clock.Add(period)
	return d.Code()
}

// Identities returns the settings for an identity provider on loopback.
func Identities(server *openidtest.Provider) openid.Settings {
	return openid.Settings{
		Issuer: server.URL, ClientID: openidtest.ClientID, ClientSecret: openidtest.ClientSecret, RedirectURL: server.Redirect,
		Scopes: []string{"openid"}, NameClaim: "preferred_username", RoleClaim: "groups",
	}
}

// SetIdentity makes the provider log in the person with this name and these groups in later logins.
func SetIdentity(server *openidtest.Provider, name string, groups ...string) {
	server.Do(func() { server.Claims = map[string]any{"sub": "x", "preferred_username": name, "groups": groups} })
}

// LeadsTo returns the address that a page's refresh leads to.
func LeadsTo(t *testing.T, rec *httptest.ResponseRecorder) string {
	t.Helper()
	Want(t, rec, http.StatusOK)
	_, rest, found := strings.Cut(rec.Body.String(), `<meta http-equiv="refresh" content="0; url=`)
	if !found {
		t.Fatalf("leads nowhere: %s", rec.Body)
	}
	address, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(address)
}

// AtProvider begins a login, does the provider's part of the login, and returns the address to
// which the provider redirects.
func (b *Browser) AtProvider(next string) string {
	b.Helper()
	back := openidtest.Visit(b.T, LeadsTo(b.T, b.Post("/admin/oidc/start", url.Values{"next": {next}})))
	return strings.TrimPrefix(back.String(), Address)
}

// ByProvider logs in through the provider.
func (b *Browser) ByProvider(next string) *httptest.ResponseRecorder {
	b.Helper()
	return b.Get(b.AtProvider(next))
}
