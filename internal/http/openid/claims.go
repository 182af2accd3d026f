package openid

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// These are bounds of the claims about a person.
const (
	maxNameLength  = 200 // bytes
	maxClaimValues = 1000
)

// The claim "email" names a person only if the claim "email_verified" is true, because some
// providers let a person enter any address.
const (
	emailClaim    = "email"
	verifiedClaim = "email_verified"
)

// claimSet has claims about a person by name.
type claimSet map[string]json.RawMessage

// claims returns the claims of an ID token. If a needed claim is missing, claims also requests the
// provider's userinfo endpoint (OpenID Connect Core 1.0, section 5.3). Many providers return groups
// and addresses only there. If both have a claim, the ID token's claim is used. Each error is an
// *Error.
func (p *Provider) claims(ctx context.Context, provider *oidc.Provider, id *oidc.IDToken, token *oauth2.Token) (claimSet, error) {
	var all, more claimSet
	if id.Claims(&all) != nil {
		return nil, untrustedError("claims")
	}
	needed := []string{p.settings.NameClaim, p.settings.RoleClaim}
	if p.settings.NameClaim == emailClaim {
		needed = append(needed, verifiedClaim)
	}
	lacks := slices.ContainsFunc(needed, func(name string) bool { return name != "" && all.find(name) == nil })
	if !lacks || provider.UserInfoEndpoint() == "" {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, &Error{Kind: Unavailable, Why: "userinfo"}
	}
	if info.Subject != id.Subject || info.Claims(&more) != nil {
		return nil, untrustedError("userinfo") // section 5.3.2: the answer may be about another person
	}
	if all[emailClaim] != nil && !bytes.Equal(all[emailClaim], more[emailClaim]) {
		delete(more, verifiedClaim) // this claim is about another address
	}
	maps.Copy(more, all)
	return more, nil
}

// find returns a claim, or nil if there is none. If no claim has the name and the name contains
// dots, the name is a path into nested objects.
func (c claimSet) find(name string) json.RawMessage {
	if value := c[name]; value != nil {
		return value
	}
	first, rest, nested := strings.Cut(name, ".")
	var inner claimSet
	if !nested || c[first] == nil || json.Unmarshal(c[first], &inner) != nil {
		return nil
	}
	return inner.find(rest)
}

// personFromClaims returns the name and the role values of a person. The name must be printable and
// contain no spaces. Each error is an *Error.
func (p *Provider) personFromClaims(claims claimSet) (Identity, error) {
	name, ok := textClaim(claims.find(p.settings.NameClaim))
	if !ok {
		return Identity{}, &Error{Kind: Nameless, Why: "claim"}
	}
	if p.settings.NameClaim == emailClaim && !isTrue(claims[verifiedClaim]) {
		return Identity{}, &Error{Kind: Nameless, Why: "unverified"}
	}
	return Identity{Name: name, RoleValues: textClaims(claims.find(p.settings.RoleClaim))}, nil
}

// textClaim returns a claim's text. It returns false if the claim is not a printable text of at
// most maxNameLength bytes without spaces.
func textClaim(raw json.RawMessage) (s string, ok bool) {
	if raw == nil || json.Unmarshal(raw, &s) != nil || s == "" || len(s) > maxNameLength || !utf8.ValidString(s) {
		return "", false
	}
	return s, !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) })
}

// isTrue reports whether a claim is true, or "true", which some providers write.
func isTrue(raw json.RawMessage) bool { return string(raw) == `true` || string(raw) == `"true"` }

// textClaims returns a claim's texts, from one text or a list. It ignores other values, texts that
// are longer than maxNameLength, and the values after the first maxClaimValues.
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
