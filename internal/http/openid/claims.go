package openid

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Bounds of the claims about a person.
const (
	maxNameLength  = 200 // bytes
	maxClaimValues = 1000
)

// emailClaim is a name claim that counts only if email_verified is true, since a person may enter
// any address at the provider.
const emailClaim = "email"

// personFromClaims returns the name and the groups of a person in the ID token's claims. The name
// must be printable, without spaces. Error: *Error.
func (p *Provider) personFromClaims(id *oidc.IDToken) (Identity, error) {
	var claims map[string]json.RawMessage
	if id.Claims(&claims) != nil {
		return Identity{}, untrustedError("claims")
	}
	name, ok := textClaim(claims[p.settings.NameClaim])
	if !ok {
		return Identity{}, &Error{Kind: Nameless, Why: "claim"}
	}
	if p.settings.NameClaim == emailClaim && !isTrue(claims["email_verified"]) {
		return Identity{}, &Error{Kind: Nameless, Why: "unverified"}
	}
	return Identity{Name: name, RoleValues: textClaims(claims[p.settings.RoleClaim])}, nil
}

// textClaim returns a claim's text; false if it is no printable text of at most maxNameLength bytes
// without spaces.
func textClaim(raw json.RawMessage) (s string, ok bool) {
	if raw == nil || json.Unmarshal(raw, &s) != nil || s == "" || len(s) > maxNameLength || !utf8.ValidString(s) {
		return "", false
	}
	return s, !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) })
}

// isTrue reports whether a claim is true, or "true" as some providers write it.
func isTrue(raw json.RawMessage) bool { return string(raw) == `true` || string(raw) == `"true"` }

// textClaims returns a claim's texts, from one text or a list; other values are ignored.
func textClaims(raw json.RawMessage) (all []string) {
	var list []json.RawMessage
	if raw == nil || json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for _, one := range list[:min(len(list), maxClaimValues)] {
		var s string
		if one != nil && json.Unmarshal(one, &s) == nil && s != "" && len(s) <= maxNameLength {
			all = append(all, s)
		}
	}
	return all
}
