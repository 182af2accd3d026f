package sms

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// CanonicalRequest returns the text of a request to / that Aliyun and Tencent Cloud want signed, and the list of the signed headers in it.
func CanonicalRequest(method, query string, signed map[string]string, bodyHash string) (text, list string) {
	names := slices.Sorted(maps.Keys(signed))
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + strings.TrimSpace(signed[name]) + "\n")
	}
	list = strings.Join(names, ";")
	return strings.Join([]string{method, "/", query, headers.String(), list, bodyHash}, "\n"), list
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

// Host returns the host of an endpoint, with the port if it has one, as signatures need it; "" if the endpoint is malformed.
func Host(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}
