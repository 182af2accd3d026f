package oauth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/exchange"
)

// Client is a client at a token server. Without Account, RefreshToken, Command and File it uses its own credentials
// (RFC 6749 section 4.4).
type Client struct {
	// TokenURL takes the requests: https, or http on loopback.
	TokenURL   string
	ID, Secret string
	// Certificate signs in place of Secret (RFC 7523 section 2.2).
	Certificate *Key
	// Account signs, at its own token server, for the mailbox Subject (RFC 7523 section 2.1).
	Account *Key
	Subject string
	// RefreshToken is the first one (RFC 6749 section 6). Shared keeps those that follow, and is set with it.
	RefreshToken string
	Shared       Shared
	Scope        string // empty: the server chooses
	// Command gives the token on its standard output, and File in a file, in place of a token server.
	Command []string
	File    string
	// Dial opens the socket; nil means a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// GoogleScope is the only scope of Google with which a token logs in at its mail server.
const GoogleScope = "https://mail.google.com/"

// Of Microsoft 365.
const (
	MicrosoftScope = "https://outlook.office365.com/.default"
	// MicrosoftUserScope is for the refresh token of an account.
	MicrosoftUserScope = "https://outlook.office.com/SMTP.Send offline_access"
	microsoftAPI       = "outlook.office" // a part of all scopes for its mail servers
	sendRole           = "SMTP.SendAsApp" // the permission to send by SMTP
	SwitchedOff        = "5.7.139"        // the code of a mailbox without SMTP AUTH: no token helps
	wordsTenant        = "the tenant does not exist: give its ID or domain"
	wordsScope         = "the scope is wrong: it ends in /.default"
	wordsConsent       = "the API permission " + sendRole + " of Office 365 Exchange Online is missing, or an administrator's consent to it"
	microsoftLogin     = "https://login.microsoftonline.com/"
)

// MicrosoftTokenURL returns the token server of a tenant.
func MicrosoftTokenURL(tenant string) string { return microsoftLogin + tenant + "/oauth2/v2.0/token" }

const (
	// maxToken bounds a token, in bytes. Together with the user it fits a line of 12,288 (RFC 4954 section 4).
	maxToken = 8 << 10
	// defaultLife is how long a token counts whose life the server does not tell, and maxLife how long any does, in
	// seconds.
	defaultLife, maxLife = 300, 86400
)

var (
	tokenPattern     = regexp.MustCompile(`^[!-~]+$`)
	microsoftPattern = regexp.MustCompile(`AADSTS([0-9]{4,9})\b`)
)

// knownErrors are the codes of RFC 6749 sections 4.1.2.1 and 5.2, RFC 8707 and Microsoft. Another text may be private.
var knownErrors = []string{
	"invalid_request", "invalid_client", "invalid_grant", "invalid_scope", "invalid_resource", "invalid_target",
	"unauthorized_client", "unsupported_grant_type", "access_denied", "server_error", "temporarily_unavailable", "interaction_required",
	"consent_required", "slow_down",
}

// microsoftErrors says what to do about Microsoft's errors, by number.
var microsoftErrors = map[string]string{
	"700016":  "the app registration is missing in this tenant: client_id is its Application (client) ID",
	"7000112": "the application is disabled in the tenant",
	"7000215": "the client's secret is wrong: give the Value of the secret, and not its Secret ID",
	"7000222": "the client's secret has expired: make another one",
	"700027":  "the certificate is not that of the app registration, or has ended: upload the one that the file has",
	"90002":   wordsTenant, "900021": wordsTenant, "900023": wordsTenant,
	"70011": wordsScope, "1002012": wordsScope,
	"500011": "the tenant has no Exchange Online, or the scope is wrong",
	"65001":  wordsConsent,
	"53003":  "conditional access keeps the application out",
}

// answer is a token server's (RFC 6749 sections 5.1 and 5.2).
type answer struct {
	Token       string      `json:"access_token"`
	Type        string      `json:"token_type"`
	Seconds     json.Number `json:"expires_in"`
	Refresh     string      `json:"refresh_token"`
	Error       string      `json:"error"`
	Description string      `json:"error_description"`
}

func parseAnswer(text []byte) (a answer, err error) {
	err = json.Unmarshal(text, &a)
	return a, err
}

// loginErrors are those after which a refresh token is of no use.
var loginErrors = []string{"invalid_grant", "interaction_required", "consent_required"}

// accountErrors says what to do about Google's errors for a service account.
var accountErrors = map[string]string{
	"unauthorized_client": "domain-wide delegation of the account's client ID for this scope is missing in Google's admin console",
	"invalid_grant":       "subject is no mailbox of the domain, this machine's clock is wrong, or the account's key was deleted",
}

// fetch gets a token once, and returns when it ends by the monotonic clock. The error is a delivery.SafeError.
func (s *Source) fetch(ctx context.Context) (token string, until time.Time, err error) {
	began := time.Now() // a life that is counted from here ends too early rather than too late
	var a answer
	switch {
	case s.client.RefreshToken != "":
		return s.fetchShared(ctx)
	case s.client.File != "" || s.client.Command != nil:
		a, err = s.client.readLocal(ctx)
	default:
		a, err = s.client.ask(ctx, &s.http)
	}
	if err != nil {
		return "", until, err
	}
	token, life, err := a.usable()
	return token, began.Add(life), err
}

// usable returns the token and its life.
func (a answer) usable() (token string, life time.Duration, err error) {
	if !strings.EqualFold(a.Type, bearer) || len(a.Token) > maxToken || !tokenPattern.MatchString(a.Token) {
		return "", 0, errUnusable
	}
	seconds, _ := a.Seconds.Int64()
	if seconds <= 0 {
		seconds = defaultLife
	}
	return a.Token, time.Duration(min(seconds, maxLife)) * time.Second, nil
}

// ask asks the token server.
func (c Client) ask(ctx context.Context, by *exchange.Client) (a answer, err error) {
	form, err := c.form()
	if err != nil {
		return a, delivery.SafeError("oauth can't sign the assertion")
	}
	response, fail := by.Do(ctx, exchange.Request{
		Method: http.MethodPost, URL: c.TokenURL, Body: []byte(form.Encode()),
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}},
	})
	if fail != nil {
		return a, delivery.SafeError("the token server: " + fail.Err.Error())
	}
	a, err = parseAnswer(response.Body)
	switch {
	case a.Error != "" || response.Status != http.StatusOK:
		return answer{Error: a.Error}, c.refusal(response.Status, a) // a refusal has no tokens
	case err != nil:
		return a, errUnusable
	}
	return a, nil
}

// form is the body of a request.
func (c Client) form() (form url.Values, err error) {
	form = url.Values{}
	set := func(name, value string) {
		if value != "" {
			form.Set(name, value)
		}
	}
	var assertion string
	if c.Account != nil {
		assertion, err = c.Account.sign(jose.RS256, map[string]any{"iss": c.Account.Account, "sub": c.Subject, "aud": c.TokenURL, "scope": c.Scope})
		set("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
		set("assertion", assertion)
		return form, err
	}
	set("grant_type", "client_credentials")
	if c.RefreshToken != "" {
		set("grant_type", "refresh_token")
		set("refresh_token", c.RefreshToken)
	}
	set("client_id", c.ID)
	set("client_secret", c.Secret)
	set("scope", c.Scope)
	if c.Certificate != nil {
		algorithm := jose.RS256 // RFC 7523 section 5
		if c.atMicrosoft() {
			algorithm = jose.PS256
		}
		assertion, err = c.Certificate.sign(algorithm, map[string]any{"iss": c.ID, "sub": c.ID, "aud": c.TokenURL})
		set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		set("client_assertion", assertion)
	}
	return form, err
}

func (c Client) atMicrosoft() bool { return strings.Contains(c.Scope, microsoftAPI) }

// refusal returns the error for an answer without a token.
func (c Client) refusal(status int, a answer) error {
	code := a.Error
	if !slices.Contains(knownErrors, code) {
		code = "status " + strconv.Itoa(status)
	}
	text := "the token server refuses: " + code
	switch {
	case c.Account != nil && accountErrors[code] != "":
		text += ": " + accountErrors[code]
	case c.RefreshToken != "" && slices.Contains(loginErrors, code):
		text += ": a person must log in anew: write the new refresh token into refresh_token_file, and restart"
	}
	if found := microsoftPattern.FindStringSubmatch(a.Description); found != nil {
		text += ", " + found[0] + ": " + cmp.Or(microsoftErrors[found[1]], "look the number up at "+microsoftLogin+"error")
	}
	return delivery.SafeError(text)
}

// LoginProblem says what to do after a mail server has refused a token with 535 and this enhanced status code.
func (s *Source) LoginProblem(code, token string) string {
	switch {
	case code == SwitchedOff:
		return "SMTP AUTH is off for this mailbox or tenant, for tokens too: Set-CASMailbox -SmtpClientAuthenticationDisabled $false"
	case !s.client.atMicrosoft(), s.client.RefreshToken != "":
		return "the mail server refuses the token: look at user and scope"
	case lacksRole(token):
		return wordsConsent
	}
	return "Exchange refuses the token: register the enterprise application there (New-ServicePrincipal) with its own Object ID, and " +
		"give it this mailbox (Add-MailboxPermission); both take up to 30 minutes"
}

// lacksRole reports whether a token is a JSON Web Token that does not have sendRole. Nothing is decided by it.
func lacksRole(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	var claims struct{ Roles []string }
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(payload, &claims) == nil && !slices.Contains(claims.Roles, sendRole)
}
