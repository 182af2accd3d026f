package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

// ReadJSON decodes the body as one JSON object into v: nothing unknown, nothing twice, nothing after it, nothing of a
// wrong type. Each mistake is a problem that says where it is.
func ReadJSON(c echo.Context, v any) error {
	if !isJSON(c.Request().Header.Get(echo.HeaderContentType)) {
		return &Problem{Kind: UnsupportedMedia}
	}
	body, err := readBody(c.Request())
	if err != nil {
		return bodyError(err)
	}
	if !utf8.Valid(body) {
		return malformed("The body is not valid UTF-8.", firstInvalid(body))
	}
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) > 0 && first[0] != '{' && json.Valid(body) {
		return malformed("The body is JSON, but not an object.", int64(len(body)-len(first)))
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return decodeError(err, int64(len(body)))
	}
	if rest := bytes.TrimLeft(body[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		_, _ = d.Token()
		return malformed("There is something after the JSON object.", d.InputOffset())
	}
	if name, position, found := nameTwice(body); found {
		return &Problem{
			Kind: MalformedJSON, Detail: "An object of the body has this name twice; names that differ by case alone count as one.",
			Extra: map[string]any{"field": safeName(name), "position": position},
		}
	}
	return nil
}

func isJSON(contentType string) bool {
	if contentType == echo.MIMEApplicationJSON {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == echo.MIMEApplicationJSON
}

// readBody reads all of a body into room for what it is said to have.
func readBody(r *http.Request) ([]byte, error) {
	size := max(0, min(r.ContentLength, MaxBody))
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := b.ReadFrom(r.Body)
	return b.Bytes(), err
}

func bodyError(err error) error {
	var he *echo.HTTPError
	if errors.As(err, &he) {
		return he // the body limit's own
	}
	return &Problem{Kind: BadRequest, Detail: "The body could not be read to its end."}
}

func malformed(detail string, position int64) error {
	return &Problem{Kind: MalformedJSON, Detail: detail, Extra: map[string]any{"position": position}}
}

func decodeError(err error, size int64) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return malformed(fmt.Sprintf("The body is not valid JSON at byte %d.", syntax.Offset), syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("The body ends before its JSON object does.", size)
	case errors.As(err, &kind):
		return &Problem{
			Kind: InvalidField, Detail: fmt.Sprintf("This field must be a %s, not a %s.", jsonType(kind.Type.Kind().String()), kind.Value),
			Extra: map[string]any{"field": kind.Field, "reason": "wrong_type", "position": kind.Offset},
		}
	}
	// encoding/json has no type for this one, only the words.
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &Problem{Kind: UnknownField, Extra: map[string]any{"field": safeName(strings.Trim(name, `"`))}}
	}
	return malformed("The body could not be decoded.", 0)
}

func jsonType(kind string) string {
	if kind == "struct" {
		return "object"
	}
	return kind
}

// safeName shortens what a caller named, so that an answer can't be made to carry a page's worth of it.
func safeName(name string) string {
	if r := []rune(name); len(r) > 64 {
		return string(r[:64]) + "…"
	}
	return name
}

func firstInvalid(b []byte) int64 {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return int64(i)
		}
		i += n
	}
	return int64(len(b))
}
