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

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/exchange"
)

// Client is a client at a token server.
type Client struct {
	// TokenURL takes the requests: https, or http on loopback.
	TokenURL   string
	ID, Secret string
	Scope      string // empty: the server chooses
	// Dial opens the socket; nil means a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Of Microsoft 365.
const (
	MicrosoftScope = "https://outlook.office365.com/.default"
	microsoftAPI   = "outlook.office" // a part of all scopes for its mail servers
	sendRole       = "SMTP.SendAsApp" // the permission to send by SMTP
	SwitchedOff    = "5.7.139"        // the code of a mailbox without SMTP AUTH: no token helps
	wordsTenant    = "the tenant does not exist: give its ID or domain"
	wordsScope     = "the scope is wrong: it ends in /.default"
	wordsConsent   = "the API permission " + sendRole + " of Office 365 Exchange Online is missing, or an administrator's consent to it"
	microsoftLogin = "https://login.microsoftonline.com/"
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
var knownErrors = []string{"invalid_request", "invalid_client", "invalid_grant", "invalid_scope", "invalid_resource", "invalid_target",
	"unauthorized_client", "unsupported_grant_type", "access_denied", "server_error", "temporarily_unavailable", "interaction_required",
	"consent_required", "slow_down"}

// microsoftErrors says what to do about Microsoft's errors, by number.
var microsoftErrors = map[string]string{
	"700016":  "the app registration is missing in this tenant: client_id is its Application (client) ID",
	"7000112": "the application is disabled in the tenant",
	"7000215": "the client's secret is wrong: give the Value of the secret, and not its Secret ID",
	"7000222": "the client's secret has expired: make another one",
	"90002":   wordsTenant, "900021": wordsTenant, "900023": wordsTenant,
	"70011": wordsScope, "1002012": wordsScope,
	"500011": "the tenant has no Exchange Online, or the scope is wrong",
	"65001":  wordsConsent,
	"53003":  "conditional access keeps the application out",
}

// fetch asks the token server once. The error is a delivery.SafeError.
func (c Client) fetch(ctx context.Context, by *exchange.Client) (token string, life time.Duration, err error) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {c.ID}, "client_secret": {c.Secret}}
	if c.Scope != "" {
		form.Set("scope", c.Scope)
	}
	response, fail := by.Do(ctx, exchange.Request{Method: http.MethodPost, URL: c.TokenURL, Body: []byte(form.Encode()),
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}})
	if fail != nil {
		return "", 0, delivery.SafeError("the token server: " + fail.Err.Error())
	}
	var answer struct {
		Token       string      `json:"access_token"`
		Type        string      `json:"token_type"`
		Seconds     json.Number `json:"expires_in"`
		Error       string      `json:"error"`
		Description string      `json:"error_description"`
	}
	unreadable := json.Unmarshal(response.Body, &answer) != nil
	switch {
	case answer.Error != "" || response.Status != http.StatusOK:
		return "", 0, refusal(response.Status, answer.Error, answer.Description)
	case unreadable || !strings.EqualFold(answer.Type, "bearer") || len(answer.Token) > maxToken || !tokenPattern.MatchString(answer.Token):
		return "", 0, delivery.SafeError("the token server gives no token that can be used")
	}
	seconds, _ := answer.Seconds.Int64()
	if seconds <= 0 {
		seconds = defaultLife
	}
	return answer.Token, time.Duration(min(seconds, maxLife)) * time.Second, nil
}

// refusal returns the error for an answer without a token.
func refusal(status int, code, description string) error {
	if !slices.Contains(knownErrors, code) {
		code = "status " + strconv.Itoa(status)
	}
	text := "the token server refuses: " + code
	if found := microsoftPattern.FindStringSubmatch(description); found != nil {
		text += ", " + found[0] + ": " + cmp.Or(microsoftErrors[found[1]], "look the number up at "+microsoftLogin+"error")
	}
	return delivery.SafeError(text)
}

// LoginProblem says what to do after a mail server has refused a token with 535 and this enhanced status code.
func (s *Source) LoginProblem(code, token string) string {
	switch {
	case code == SwitchedOff:
		return "SMTP AUTH is off for this mailbox or tenant, for tokens too: Set-CASMailbox -SmtpClientAuthenticationDisabled $false"
	case !strings.Contains(s.client.Scope, microsoftAPI):
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
