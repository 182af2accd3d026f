package api

import (
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"sendcode/internal/http/server"
)

// These are bounds of an Idempotency-Key, in bytes.
const (
	minIdempotencyKeyLength = 16
	maxIdempotencyKeyLength = 255
)

// idempotencyKey parses the header Idempotency-Key. If there is no such header, it returns "". It
// accepts a quoted structured-field string (draft-ietf-httpapi-idempotency-key-header-07 section
// 2.1, RFC 9651 section 3.3.3). It also accepts bare text, which many clients send. The quoted and
// the bare form give the same key. The error is a *server.Problem.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key, ok := strings.Trim(values[0], " \t"), true
	if strings.HasPrefix(key, `"`) {
		item, err := httpsfv.UnmarshalItem([]string{key})
		key, ok = item.Value.(string)
		ok = ok && err == nil && len(item.Params.Names()) == 0
	} else { // bare text has no parameters and is not a list
		ok = !strings.ContainsFunc(key, func(r rune) bool {
			return r <= ' ' || r > '~' ||
				strings.ContainsRune(`",;`, r)
		})
	}
	if !ok || len(values) > 1 || len(key) < minIdempotencyKeyLength || len(key) > maxIdempotencyKeyLength {
		return "", &server.Problem{
			Kind: server.BadRequest,
			Detail: "An Idempotency-Key is one text of 16 to 255 visible characters; make it of 32 random hexadecimal digits, " +
				`such as "5f0c9a4be1d24786a35e70c81b9f2d63".`,
		}
	}
	return key, nil
}
