package smtp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wneessen/go-mail/smtp"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/oauth"
)

// tokenMechanisms are mechanisms that send an access token to the server. Microsoft and Google
// offer the first; the second is its standardized form (RFC 7628).
var tokenMechanisms = []string{"XOAUTH2", "OAUTHBEARER"}

// openWithToken is openSession for a login by OAuth. It gets the token before it connects. If the
// server refuses the token with 535, openWithToken tries again with another token, as long as there
// is one. It does not if the reply has the code oauth.SwitchedOff.
func openWithToken(ctx context.Context, config Config) (s *session, fail *delivery.Error) {
	for fail == nil || fail.Code != oauth.SwitchedOff {
		token, err := config.Tokens.Token(ctx, config.Password)
		if err != nil && fail == nil {
			return nil, newError(ctx, delivery.StageAuth, delivery.SafeError("oauth "+config.OAuth+": "+err.Error()),
				delivery.PrivateData{})
		}
		if err != nil {
			break
		}
		config.Password = token
		s, fail = connect(ctx, config)
		if fail == nil || fail.Stage != delivery.StageAuth || fail.Status != 535 {
			return s, fail
		}
	}
	text := "configuration of oauth " + config.OAuth + ": " + config.Tokens.LoginProblem(fail.Code, config.Password)
	if fail.Err != nil {
		text += "; " + fail.Err.Error()
	}
	fail.Err = delivery.SafeError(text)
	return nil, fail
}

// showToken logs in by one of tokenMechanisms. If the server sent JSON before its refusal, the
// error quotes the JSON's status and scope.
func (s *session) showToken(mechanism string) error {
	auth := &tokenAuth{mechanism: mechanism, config: s.config}
	err := s.client.Auth(auth)
	if err != nil && auth.refusalText != "" {
		return fmt.Errorf("%w: %w", delivery.SafeError("the server says "+auth.refusalText), err)
	}
	return err
}

// maxAuthLine is how long a line with AUTH and the first response may be. A longer response is sent
// after the server's 334 (RFC 4954 section 4).
const maxAuthLine = 512

// tokenAuth is the client's side of tokenMechanisms. The caller has checked the encryption.
type tokenAuth struct {
	mechanism   string
	config      Config
	response    string // not sent yet
	refusalText string
}

// Start implements the Auth of go-mail/smtp.
func (a *tokenAuth) Start(*smtp.ServerInfo) (mechanism string, first []byte, err error) {
	bearer := "auth=Bearer " + a.config.Password + "\x01\x01"
	a.response = "user=" + a.config.Username + "\x01" + bearer
	if a.mechanism == "OAUTHBEARER" {
		name := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(a.config.Username)
		a.response = fmt.Sprintf("n,a=%s,\x01host=%s\x01port=%d\x01%s", name, a.config.Host, a.config.port(), bearer)
	}
	if len("AUTH "+a.mechanism+" \r\n")+base64.StdEncoding.EncodedLen(len(a.response)) > maxAuthLine {
		return a.mechanism, nil, nil
	}
	first, a.response = []byte(a.response), ""
	return a.mechanism, first, nil
}

// Next implements the interface Auth of go-mail/smtp. It stores status and scope from the JSON of a
// refusal. Then it sends an empty line, or one byte for OAUTHBEARER, so that the server sends its
// reply (RFC 7628 section 3.2.3).
func (a *tokenAuth) Next(challenge []byte, more bool) ([]byte, error) {
	var refusal struct{ Status, Scope string }
	response := []byte(a.response)
	switch {
	case !more:
		return nil, nil
	case a.response != "":
		a.response = ""
		return response, nil
	case json.Unmarshal(challenge, &refusal) == nil:
		a.refusalText = delivery.RedactReply("status "+refusal.Status+" for "+refusal.Scope,
			delivery.PrivateData{Login: []string{a.config.Username, a.config.Password}})
	}
	if a.mechanism == "OAUTHBEARER" {
		return []byte{1}, nil
	}
	return response, nil
}
