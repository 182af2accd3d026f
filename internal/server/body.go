package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"
)

// ReadJSON decodes the body, one JSON object, into v. Error: a *Problem that tells the position, for unknown or duplicate names, wrong types,
// or data after the object; or echo's error for a body that is too large. Names are case-sensitive.
func ReadJSON(c echo.Context, v any) error {
	media, _, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if err != nil || media != echo.MIMEApplicationJSON {
		return &Problem{Kind: UnsupportedMedia}
	}
	body, err := readBody(c.Request())
	if err != nil {
		return bodyError(err)
	}
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) > 0 && first[0] != '{' && jsontext.Value(body).IsValid() {
		return malformed("The body is JSON, but not an object.", int64(len(body)-len(first)))
	}
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true)); err != nil {
		return decodeError(err, body)
	}
	return nil
}

// readBody reads the whole body, into a buffer of the size that Content-Length tells.
func readBody(r *http.Request) ([]byte, error) {
	size := max(0, min(r.ContentLength, MaxBody))
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := b.ReadFrom(r.Body)
	return b.Bytes(), err
}

func bodyError(err error) error {
	if limit, ok := errors.AsType[*echo.HTTPError](err); ok {
		return limit
	}
	return &Problem{Kind: BadRequest, Detail: "The body could not be read to its end."}
}

func malformed(detail string, position int64) error {
	return &Problem{Kind: MalformedJSON, Detail: detail, Extra: map[string]any{"position": position}}
}

func decodeError(err error, body []byte) error {
	syntax, _ := errors.AsType[*jsontext.SyntacticError](err)
	meaning, _ := errors.AsType[*json.SemanticError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("The body ends before its JSON object does.", int64(len(body)))
	case !utf8.Valid(body):
		return malformed("The body is not valid UTF-8.", firstInvalid(body))
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Problem{
			Kind: MalformedJSON, Detail: "An object of the body has this name twice.",
			Extra: map[string]any{"field": safeName(syntax.JSONPointer.LastToken()), "position": syntax.ByteOffset},
		}
	case syntax != nil:
		return malformed(fmt.Sprintf("The body is not valid JSON at byte %d.", syntax.ByteOffset), syntax.ByteOffset)
	case errors.Is(err, json.ErrUnknownName):
		return &Problem{Kind: UnknownField, Extra: map[string]any{"field": safeName(meaning.JSONPointer.LastToken())}}
	case meaning != nil && meaning.GoType != nil:
		return &Problem{
			Kind: InvalidField, Detail: "This field must be " + jsonType(meaning.GoType) + ".",
			Extra: map[string]any{"field": dotted(meaning.JSONPointer), "reason": "wrong_type", "position": meaning.ByteOffset},
		}
	}
	return malformed("The body could not be decoded.", 0)
}

// dotted returns the path of a field with dots, such as keys.user.
func dotted(p jsontext.Pointer) string {
	return safeName(strings.Join(slices.Collect(p.Tokens()), "."))
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "a " + t.Kind().String()
}

// safeName cuts a name from a request to 64 characters, so that a response does not repeat a long text.
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
