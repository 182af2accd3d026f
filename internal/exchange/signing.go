package exchange

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

// CanonicalRequest returns the text of a request that AWS, Aliyun and Tencent Cloud want signed,
// and the list of the signed headers in it. The path is as it stands in the URL, the query sorted,
// and the names of headers are in lower case.
func CanonicalRequest(method, path, query string, signed map[string]string, bodyHash string) (text, list string) {
	names := slices.Sorted(maps.Keys(signed))
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + strings.TrimSpace(signed[name]) + "\n")
	}
	list = strings.Join(names, ";")
	return strings.Join([]string{method, path, query, headers.String(), list, bodyHash}, "\n"), list
}

// HexSHA256 is the hash of a text in hexadecimal digits.
func HexSHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// HMACSHA256 is the HMAC of a text.
func HMACSHA256(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// BasicAuth returns the header Authorization of RFC 7617 section 2.
func BasicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// EscapeURL escapes for paths, queries and forms alike: a space is %20 in all of them.
func EscapeURL(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// Host returns the host of an endpoint, with the port if it has one, as signatures need it; "" if
// the endpoint is malformed.
func Host(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}
