// Package authhooks is for the hooks of auth servers. With a hook's request, an auth server asks
// the service to send codes. The package verifies and parses these requests, and makes the bodies
// of the answers. Package api sends the codes.
package authhooks

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/standardwebhooks"
)

// HookKind names the auth server and the channel of a hook.
type HookKind string

// These are the values of `server` in the settings of a hook.
const (
	SupabaseEmail HookKind = "supabase-email"
	SupabaseSMS   HookKind = "supabase-sms"
)

// Channel returns the channel on which the hook's codes are sent.
func (h HookKind) Channel() recipient.Channel {
	if h == SupabaseSMS {
		return recipient.SMS
	}
	return recipient.Email
}

// Hook has the settings of one hook of an auth server.
type Hook struct {
	Name       string // the last segment of the hook's address
	App        string
	Kind       HookKind
	Secrets    [][]byte          // a signature by any one of them is enough, so that secrets can be replaced without an interruption
	Purposes   map[string]string // purpose by action; other actions have the default purpose
	TTL        time.Duration     // how long the server's codes are valid; 0: the messages do not mention it
	AppReports bool              // the app reports each approval: a code without a report was not entered
}

// MaxBodyBytes bounds a request's body, in bytes. The body for a person with many identities is
// large.
const MaxBodyBytes = 256 << 10

var errMalformedBody = errors.New("hooks: the body does not belong to this hook")

// Request is one request of an auth server.
type Request struct {
	ID       string // the same for each repetition
	Action   string // what the codes are for, in the server's words
	IP       netip.Addr
	Messages []codeMessage // none for a notification, which has no code
	// Missing is a text for the user of the auth server. It says that the body lacks the code, the
	// recipient or the action of a message. In that case Messages is empty. If nothing is missing,
	// Missing is empty.
	Missing string
}

// codeMessage is one code with its recipient, as the body has them. A phone number has a plus, but
// neither it nor a mail address was checked.
type codeMessage struct{ To, Code string }

// Verify reports whether the auth server signed the request, at most standardwebhooks.MaxAge ago.
func (h Hook) Verify(header http.Header, body []byte, now time.Time) bool {
	return standardwebhooks.Verify(header, standardwebhooks.HeaderPrefix, body, h.Secrets, now)
}

// CouldVerify reports whether Verify can return true for these headers and some body.
func (h Hook) CouldVerify(header http.Header, now time.Time) bool {
	return standardwebhooks.CouldVerify(header, standardwebhooks.HeaderPrefix, now)
}

// Parse parses a request's body. It returns an error if the body does not have the form that the
// hook's auth server uses.
func (h Hook) Parse(body []byte) (Request, error) {
	r, err := parseSupabase(h.Kind.Channel(), body)
	if r.ID == "" { // older servers give no ID; a repeated request has the same body
		sum := sha256.Sum256(body)
		r.ID = hex.EncodeToString(sum[:])
	}
	return r, err
}

// SuccessBody returns the body of the answer to a request whose codes are being sent, or that has
// no code. The answer's status is 200.
func (h Hook) SuccessBody() any { return supabaseAnswer{} }

// RefusalBody returns the body of the answer to a refused request. The answer itself has the status
// 200. The auth server passes status and text on to the person. The text must not be empty.
func (h Hook) RefusalBody(status int, text string) any {
	return supabaseAnswer{&supabaseError{status, text}}
}
