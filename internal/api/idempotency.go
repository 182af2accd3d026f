package api

import (
	"net/http"
	"strings"

	"sendcode/internal/server"
)

// Bounds of an Idempotency-Key, in bytes.
const (
	minKey = 16
	maxKey = 255
)

// idempotencyKey parses the header Idempotency-Key; "" if there is none. It accepts a structured-field string in quotes
// (draft-ietf-httpapi-idempotency-key-header-07 section 2.1, RFC 9651 section 3.3.3) and bare text, which many clients send. Both
// give the same key. Error: a *server.Problem.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key, ok := unquotedOrBare(strings.Trim(values[0], " \t"))
	if !ok || len(values) > 1 || len(key) < minKey || len(key) > maxKey {
		return "", &server.Problem{Kind: server.BadRequest,
			Detail: "An Idempotency-Key is one text of 16 to 255 visible characters; make it of 32 random hexadecimal digits, " +
				`such as "5f0c9a4be1d24786a35e70c81b9f2d63".`}
	}
	return key, nil
}

// unquotedOrBare removes the quotes of a text, if it has them, and replaces the escapes \" and \\. It returns false for other syntax.
func unquotedOrBare(text string) (string, bool) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", false
	}
	inner, quoted := strings.CutPrefix(text, `"`)
	if !quoted {
		return text, !strings.ContainsAny(text, ` ",;`) // such a text has parameters, or is a list
	}
	var key strings.Builder
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '"':
			return key.String(), i == len(inner)-1
		case '\\':
			if i++; i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", false
			}
		}
		key.WriteByte(inner[i])
	}
	return "", false
}
