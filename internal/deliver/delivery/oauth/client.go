package oauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/oauth2/jwt"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// Client is a client of a token server. Without Account and Command it uses its own credentials
// (RFC 6749 section 4.4).
type Client struct {
	// TokenURL must be https, or http on loopback.
	TokenURL   string
	ID, Secret string
	// Account is a service account that takes the place of ID and Secret. The client signs a JWT
	// with the account's key, for the mailbox that is in the field Subject. It sends the JWT to the
	// account's own token server (RFC 7523 section 2.1).
	Account *Account
	Subject string
	Scope   string // empty: the server chooses
	// Command is a command that prints the token, in place of a token server.
	Command []string
	// Dial opens the socket; nil means a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Account is a Google service account. It has the fields of the JSON file with the account's key.
type Account struct {
	Type     string `json:"type"`
	Email    string `json:"client_email"`
	KeyID    string `json:"private_key_id"`
	Key      string `json:"private_key"`
	TokenURL string `json:"token_uri"`
}

// ParseAccount reads the file that Google gives for a service account's key. The error names the
// mistake, and quotes nothing from the file.
func ParseAccount(text []byte) (*Account, error) {
	const must = "must be the JSON file of a service account, with its key: "
	a := new(Account)
	text = bytes.TrimPrefix(text, byteOrderMark)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, errors.New(must + "it is not JSON")
	}
	a.Key = strings.ReplaceAll(a.Key, `\n`, "\n") // a line break that was escaped twice, as in a variable
	block, _ := pem.Decode([]byte(a.Key))
	switch {
	case otherCredentials[a.Type] != "":
		return nil, errors.New(must + "this one has " + otherCredentials[a.Type])
	case hasClient(text):
		return nil, errors.New(must + "this one has an OAuth client: make a key of a service account (IAM, Service accounts, Keys)")
	case a.Type != "service_account":
		return nil, errors.New(must + "its type differs")
	case a.Email == "", a.TokenURL == "", a.Key == "":
		return nil, errors.New(must + "client_email, token_uri or private_key is missing")
	case block == nil:
		return nil, errors.New(must + "private_key is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if _, ok := key.(*rsa.PrivateKey); err == nil && ok {
		return a, nil
	}
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
		return nil, errors.New(must + "private_key is not an RSA key")
	}
	return a, nil
}

// otherCredentials are the types of Google's other files of credentials, each with its content and
// with advice. No key in such a file can sign for a mailbox.
var otherCredentials = map[string]string{
	"authorized_user":                  "a person's login, of gcloud auth application-default login: make a key of a service account",
	"external_account":                 "a workload identity: use command, with a program that prints its token",
	"external_account_authorized_user": "a person's login of a workforce: make a key of a service account",
	"impersonated_service_account":     "the right to act as a service account: make a key of that account, or use command",
	"gdch_service_account":             "an account of Distributed Cloud, whose tokens are not for Gmail",
}

// hasClient reports whether the text is the file of an OAuth client.
func hasClient(text []byte) bool {
	var file struct{ Installed, Web *struct{} }
	return json.Unmarshal(text, &file) == nil && (file.Installed != nil || file.Web != nil)
}

// GoogleScope is the only scope with which Google's mail server accepts a token.
const GoogleScope = "https://mail.google.com/"

// These are scopes, codes and texts for Microsoft 365.
const (
	MicrosoftScope = "https://outlook.office365.com/.default"
	microsoftAPI   = "outlook.office" // a part of every scope for Microsoft's mail servers
	sendRole       = "SMTP.SendAsApp" // the permission to send by SMTP
	SwitchedOff    = "5.7.139"        // the enhanced status code for a mailbox without SMTP AUTH: no token helps
	wordsTenant    = "the tenant does not exist: give its ID or domain"
	wordsScope     = "the scope is wrong: it ends in /.default"
	wordsConsent   = "the API permission " + sendRole + " of Office 365 Exchange Online is missing, or an administrator's consent to it"
	microsoftLogin = "https://login.microsoftonline.com/"
)

// MicrosoftTokenURL returns the token server of a tenant.
func MicrosoftTokenURL(tenant string) string { return microsoftLogin + tenant + "/oauth2/v2.0/token" }

const (
	// maxToken bounds a token, in bytes. A token and its user then fit on a line of 12,288 bytes
	// (RFC 4954 section 4).
	maxToken = 8 << 10
	// defaultLife is how long a token is valid if the server does not say how long. maxLife is the
	// longest time that any token is used.
	defaultLife, maxLife = 5 * time.Minute, 24 * time.Hour
)

var (
	tokenPattern     = regexp.MustCompile(`^[!-~]+$`)
	microsoftPattern = regexp.MustCompile(`AADSTS([0-9]{4,9})\b`)
)

// knownErrors are error codes of RFC 6749 sections 4.1.2.1 and 5.2, of RFC 8628, of RFC 8707 and of
// Microsoft. Any other error text may contain a secret and is not shown.
var knownErrors = []string{
	"invalid_request", "invalid_client", "invalid_grant", "invalid_scope", "invalid_resource", "invalid_target",
	"unauthorized_client", "unsupported_grant_type", "access_denied", "server_error", "temporarily_unavailable", "interaction_required",
	"consent_required", "slow_down",
}

// microsoftErrors has the remedies for Microsoft's errors, by number.
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

// accountErrors has the remedies for Google's errors for a service account.
var accountErrors = map[string]string{
	"unauthorized_client": "domain-wide delegation of the account's client ID for this scope is missing in Google's admin console",
	"invalid_grant":       "subject is not a mailbox of the domain, this machine's clock is wrong, or the account's key was deleted",
}

// fetch gets a token once. It returns the token and when the token ends, by the monotonic clock.
// The error is a delivery.SafeError.
func (s *Source) fetch(ctx context.Context) (token string, until time.Time, err error) {
	began := time.Now() // counted from before the request, so that the token never expires before until
	ask := s.client.ask
	if s.client.Command != nil {
		ask = s.client.run
	}
	t, err := ask(ctx, &s.http)
	switch {
	case err != nil:
		return "", until, err
	case t.TokenType != "" && !strings.EqualFold(t.TokenType, bearer): // many servers leave it out
		return "", until, delivery.SafeError("the token is not a bearer token")
	case len(t.AccessToken) > maxToken:
		return "", until, delivery.SafeError("the token has more than 8 KB")
	case !tokenPattern.MatchString(t.AccessToken):
		return "", until, delivery.SafeError("the token has blanks, line breaks or other characters that no token has")
	case t.Expiry.IsZero():
		return t.AccessToken, began.Add(defaultLife), nil
	}
	return t.AccessToken, began.Add(min(time.Until(t.Expiry), maxLife)), nil
}

// transport makes the HTTP requests of golang.org/x/oauth2. It keeps the response itself, because
// the errors of that library would repeat the response's text.
type transport struct {
	ctx      context.Context
	client   *providerhttp.Client
	response providerhttp.Response
	err      error
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var fail *delivery.Error
	t.response, fail = t.client.Do(t.ctx, providerhttp.Request{Method: r.Method, URL: r.URL.String(), Header: r.Header, Body: body})
	if fail != nil {
		t.err = delivery.SafeError("the token server: " + fail.Err.Error())
		return nil, t.err
	}
	t.response.Body = withReadableLife(t.response.Body)
	return &http.Response{StatusCode: t.response.Status, Body: io.NopCloser(bytes.NewReader(t.response.Body)), Request: r}, nil
}

// withReadableLife returns the answer of a token server with expires_in as a number of seconds, or
// without it. Some servers write another form ("3599", "", 3599.5, "1h", true), for which package
// oauth2 would not read the token.
func withReadableLife(body []byte) []byte {
	body = bytes.TrimPrefix(body, byteOrderMark)
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields["expires_in"] == nil {
		return body
	}
	seconds := lifeIn(fields["expires_in"])
	if delete(fields, "expires_in"); seconds > 0 {
		fields["expires_in"] = strconv.AppendInt(nil, seconds, 10)
	}
	readable, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return readable
}

// lifeIn returns the seconds in a field expires_in, at most those of maxLife, or 0 if the field
// can't be read.
func lifeIn(field json.RawMessage) int64 {
	text := strings.Trim(string(field), "\" ")
	seconds, err := strconv.ParseFloat(text, 64)
	if life, durationErr := time.ParseDuration(text); err != nil && durationErr == nil {
		seconds, err = life.Seconds(), nil
	}
	if err != nil || !(seconds > 0) { // also NaN
		return 0
	}
	return int64(min(seconds, maxLife.Seconds()))
}

var byteOrderMark = []byte("\ufeff")

// ask requests a token from the token server.
func (c Client) ask(ctx context.Context, client *providerhttp.Client) (*oauth2.Token, error) {
	w := &transport{ctx: ctx, client: client}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: w, CheckRedirect: stay})
	own := clientcredentials.Config{
		ClientID: c.ID, ClientSecret: c.Secret, TokenURL: c.TokenURL, Scopes: strings.Fields(c.Scope), AuthStyle: oauth2.AuthStyleInParams,
	}
	source := own.TokenSource(ctx)
	if a := c.Account; a != nil {
		source = (&jwt.Config{
			Email: a.Email, PrivateKey: []byte(a.Key), PrivateKeyID: a.KeyID, Subject: c.Subject, Scopes: strings.Fields(c.Scope),
			TokenURL: a.TokenURL,
		}).TokenSource(ctx)
	}
	t, err := source.Token()
	switch refused := new(oauth2.RetrieveError); {
	case w.err != nil:
		return nil, w.err
	case errors.As(err, &refused):
		return nil, c.refusal(w.response)
	case err != nil && bytes.HasPrefix(bytes.TrimSpace(w.response.Body), []byte("<")):
		return nil, delivery.SafeError("the token server answers with a page: is token_url right?")
	case err != nil && !json.Valid(w.response.Body):
		return nil, delivery.SafeError("the token server's answer is not JSON")
	case err != nil:
		return nil, delivery.SafeError("the token server's answer has no access_token")
	}
	return t, nil
}

func (c Client) atMicrosoft() bool { return strings.Contains(c.Scope, microsoftAPI) }

// refusal returns the error for an answer without a token.
func (c Client) refusal(r providerhttp.Response) error {
	var a struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(r.Body, &a)
	code := a.Error
	if !slices.Contains(knownErrors, code) {
		code = "status " + strconv.Itoa(r.Status)
	}
	text := "the token server refuses: " + code
	if c.Account != nil && accountErrors[code] != "" {
		text += ": " + accountErrors[code]
	}
	if found := microsoftPattern.FindStringSubmatch(a.Description); found != nil {
		text += ", " + found[0] + ": " + cmp.Or(microsoftErrors[found[1]], "look the number up at "+microsoftLogin+"error")
	}
	return delivery.SafeError(text)
}

// LoginProblem returns advice for a login that a mail server refused with 535. The parameter code
// is the enhanced status code of the refusal, and token is the token that was refused.
func (s *Source) LoginProblem(code, token string) string {
	switch {
	case code == SwitchedOff:
		return "SMTP AUTH is off for this mailbox or tenant, for tokens too: Set-CASMailbox -SmtpClientAuthenticationDisabled $false"
	case !s.client.atMicrosoft():
		return "the mail server refuses the token: look at user and scope"
	case lacksRole(token):
		return wordsConsent
	}
	return "Exchange refuses the token: register the enterprise application there (New-ServicePrincipal) with its own Object ID, and " +
		"give it this mailbox (Add-MailboxPermission); both take up to 30 minutes"
}

// lacksRole reports whether a token is a JSON Web Token without sendRole. It does not verify the
// token's signature, because LoginProblem uses the result only to choose its advice.
func lacksRole(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	var claims struct{ Roles []string }
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(payload, &claims) == nil && !slices.Contains(claims.Roles, sendRole)
}
