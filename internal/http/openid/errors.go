package openid

import (
	"errors"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// ErrorKind classifies an Error for the message to the person.
type ErrorKind string

const (
	Unavailable ErrorKind = "unavailable" // the provider can't be reached, or does not answer
	Refused     ErrorKind = "refused"     // the provider did not log the person in
	Untrusted   ErrorKind = "untrusted"   // the answer or the token cannot be trusted; another attempt may succeed
	Nameless    ErrorKind = "nameless"    // the provider has no claim that names the person, or has not verified that claim
)

// Error says why a login failed. It contains no text from the provider.
type Error struct {
	Kind ErrorKind
	Why  string // machine word, for log lines; may be empty
}

func (e *Error) Error() string { return "openid: " + string(e.Kind) + ": " + e.Why }

func untrustedError(why string) error { return &Error{Kind: Untrusted, Why: why} }

// loggableErrors are the error codes of RFC 6749 section 4.1.2.1 and OpenID Connect Core section
// 3.1.2.6 that a log line may contain.
var loggableErrors = []string{
	"access_denied", "login_required", "invalid_request", "invalid_scope", "unauthorized_client", "server_error",
	"temporarily_unavailable",
}

// exchangeError converts an error of the exchange of an authorization code for tokens. An error
// response with a status below 500 means that the code or the client is not trusted. Any other
// error is an outage.
func exchangeError(err error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || answer.Response.StatusCode >= 500 {
		return &Error{Kind: Unavailable, Why: "token"}
	}
	switch answer.ErrorCode {
	case "invalid_grant", "invalid_client", "invalid_request", "unauthorized_client":
		return untrustedError(answer.ErrorCode)
	}
	return untrustedError("token")
}

func verifyError(err error) error {
	if _, late := errors.AsType[*oidc.TokenExpiredError](err); late {
		return untrustedError("expired")
	}
	if strings.Contains(err.Error(), "fetching keys") { // the library has no type for this error
		return &Error{Kind: Unavailable, Why: "keys"}
	}
	return untrustedError("id_token")
}
