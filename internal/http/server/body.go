package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"
)

// ReadJSON decodes the body, one JSON object, into v. Names are case-sensitive. ReadJSON returns a
// *Problem for another media type or encoding, a content coding, unknown or duplicate names, wrong
// types, or data after the object. If the error has a position in the body, the *Problem names the
// position. If the body is too large, ReadJSON returns echo's error.
func ReadJSON(c echo.Context, v any) error {
	media, parameters, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || media != echo.MIMEApplicationJSON {
		return &Problem{Kind: UnsupportedMedia}
	}
	if err := RefuseCoding(c.Request()); err != nil {
		return err
	}
	body, err := readBody(c.Request())
	if err != nil {
		return UnreadableBodyProblem(err)
	}
	if err := refuseEncoding(parameters["charset"], body); err != nil {
		return err
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // a byte order mark, which a reader may ignore (RFC 8259 section 8.1)
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) > 0 && first[0] != '{' && jsontext.Value(body).IsValid() {
		return malformedJSONProblem("The body is JSON, but not an object", body, int64(len(body)-len(first)))
	}
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true)); err != nil {
		var value jsontext.Value
		if syntax := json.Unmarshal(body, &value); syntax != nil { // a syntax error may follow a field of a wrong type
			err = syntax
		}
		return jsonErrorProblem(err, body)
	}
	return nil
}

// refuseEncoding returns a 415 if a body is not in UTF-8 and its encoding has a name. JSON is
// always UTF-8, so a body in UTF-8 is accepted whatever its charset says (RFC 8259, sections 8.1
// and 11). The charset only gives the name of the encoding for the 415. Without a charset,
// refuseEncoding still recognizes UTF-16 and UTF-32: JSON in these encodings begins with a byte
// order mark or has a zero among the first two bytes (RFC 4627 section 3). Any other body without a
// charset, or with the charset utf-8, is accepted here. If it is not valid UTF-8, ReadJSON returns
// a 400.
func refuseEncoding(charset string, body []byte) error {
	start := string(body[:min(2, len(body))])
	switch {
	case len(body)%2 == 0 && strings.Contains(start, "\x00"), start == "\xff\xfe", start == "\xfe\xff":
		charset = "UTF-16 or UTF-32"
	case charset == "", strings.EqualFold(charset, "utf-8"), utf8.Valid(body):
		return nil
	}
	return &Problem{Kind: UnsupportedMedia, Detail: "The body is not in UTF-8, but in " + truncateName(charset) + "."}
}

// RefuseCoding returns a 415 that names the body's content coding, if it has one.
func RefuseCoding(r *http.Request) error {
	if coding := r.Header.Get(echo.HeaderContentEncoding); coding != "" && !strings.EqualFold(coding, "identity") {
		return &Problem{Kind: UnsupportedMedia, Detail: "The body has the Content-Encoding " + truncateName(coding) +
			". Send it as it is."}
	}
	return nil
}

// readBody reads the whole body. Its buffer begins with the size of Content-Length, at most
// uncountedBody, and grows as bytes arrive.
func readBody(r *http.Request) ([]byte, error) {
	size := max(0, min(r.ContentLength, uncountedBody))
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := b.ReadFrom(r.Body)
	return b.Bytes(), err
}

// UnreadableBodyProblem returns the problem of a body that could not be read. It returns echo's 413
// if the body is too large. It returns a 503 if too many bytes of bodies are being read, or if the
// service stops. Otherwise it returns a 400.
func UnreadableBodyProblem(err error) error {
	_, limit := errors.AsType[*echo.HTTPError](err)
	if _, known := errors.AsType[*Problem](err); known || limit {
		return err
	}
	return &Problem{Kind: BadRequest, Detail: "The body could not be read to its end."}
}

// unquoted matches a body that begins with a single quote, a typographic quote or a caret, or with
// an object whose first name has no double quotes. Such a body comes from a command that was
// written for the quotes of another shell.
var unquoted = regexp.MustCompile(`^\s*(['‘’“”^]|"?\{\s*[\w\\'‘’“”^])`)

// malformedJSONProblem returns the problem of a body that is not one JSON object. Reading stopped
// at the byte with the index at. The detail has the line and column of this byte.
func malformedJSONProblem(detail string, body []byte, at int64) error {
	line, column := lineAndColumn(body, at)
	all := fmt.Sprintf("%s (line %d, column %d).", detail, line, column)
	if unquoted.Match(body) {
		all += ` A shell seems to have changed its quotes: send it from a file, with curl -d "@file".`
	}
	return &Problem{Kind: MalformedJSON, Detail: all, Extra: withPositionMembers(body, at, nil)}
}

// withPositionMembers returns a copy of members with the position of a byte of the body added. The
// member position is this byte's index, from 0. The members line and column begin at 1, and column
// is in characters.
func withPositionMembers(body []byte, at int64, members map[string]any) map[string]any {
	line, column := lineAndColumn(body, at)
	all := map[string]any{"position": at, "line": line, "column": column}
	maps.Copy(all, members)
	return all
}

func lineAndColumn(body []byte, at int64) (line, column int) {
	before := body[:min(at, int64(len(body)))]
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}

// jsonErrorProblem returns the problem for an error of json.Unmarshal.
func jsonErrorProblem(err error, body []byte) error {
	syntax, _ := errors.AsType[*jsontext.SyntacticError](err)
	meaning, _ := errors.AsType[*json.SemanticError](err)
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return malformedJSONProblem("The body is empty", body, 0)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return malformedJSONProblem("The body ends before its JSON object does", body, int64(len(body)))
	case !utf8.Valid(body):
		return malformedJSONProblem("The body is not valid UTF-8", body, firstInvalidByte(body))
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Problem{
			Kind: MalformedJSON, Detail: "An object of the body has this name twice.",
			Extra: withPositionMembers(body, syntax.ByteOffset,
				map[string]any{"field": truncateName(syntax.JSONPointer.LastToken())}),
		}
	case syntax != nil:
		return malformedJSONProblem("The body is not valid JSON", body, syntax.ByteOffset)
	case errors.Is(err, json.ErrUnknownName):
		name := map[string]any{"field": truncateName(meaning.JSONPointer.LastToken())}
		return &Problem{Kind: unknownField, Extra: withPositionMembers(body, meaning.ByteOffset, name)}
	case meaning != nil && meaning.GoType != nil:
		return &Problem{
			Kind: InvalidField, Detail: "This field must be " + jsonTypeName(meaning.GoType) + ".",
			Extra: withPositionMembers(body, meaning.ByteOffset,
				map[string]any{"field": truncateName(strings.Join(slices.Collect(meaning.JSONPointer.Tokens()), ".")), "reason": "wrong_type"}),
		}
	}
	return malformedJSONProblem("The body could not be decoded", body, 0)
}

// jsonTypeName returns what a field of a Go type must be in JSON, such as "a whole number".
func jsonTypeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonTypeName(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	}
	return "a " + t.Kind().String()
}

// truncateName cuts a name from a request after 64 characters, so that a response does not repeat a
// long text.
func truncateName(name string) string {
	if r := []rune(name); len(r) > 64 {
		return string(r[:64]) + "…"
	}
	return name
}

// firstInvalidByte returns the position of the first byte that is not valid UTF-8; len(b) if there
// is none.
func firstInvalidByte(b []byte) int64 {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return int64(i)
		}
		i += n
	}
	return int64(len(b))
}
