package providerhttp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// CanonicalRequest returns the text that AWS, Aliyun and Tencent Cloud sign for a request, and the
// list of the signed headers in it. path must be as in the URL, query must be sorted, and the names
// of headers must be in lower case.
func CanonicalRequest(method, path, query string, signed map[string]string, bodyHash string) (text, signedHeaders string) {
	names := slices.Sorted(maps.Keys(signed))
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + strings.TrimSpace(signed[name]) + "\n")
	}
	signedHeaders = strings.Join(names, ";")
	return strings.Join([]string{method, path, query, headers.String(), signedHeaders, bodyHash}, "\n"), signedHeaders
}

// HexSHA256 returns the SHA-256 hash of a text in lower-case hexadecimal digits.
func HexSHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// HMACSHA256 returns the HMAC-SHA-256 of a text (RFC 2104).
func HMACSHA256(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// BasicAuth returns the value of the header Authorization for a user and password (RFC 7617
// section 2).
func BasicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// EscapeURLPart escapes a text for a path, a query or a form. A space becomes %20, which is valid
// in each of the three.
func EscapeURLPart(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// Host returns the host of an endpoint's URL in the form for signatures: with the port, if the URL
// has one. If the URL is malformed, it returns "".
func Host(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}
