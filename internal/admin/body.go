package admin

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/server"
)

// readForm reads a form's fields from the body alone: what stands in the address is no part of it.
func readForm(c echo.Context) (url.Values, error) {
	if mediaOf(c) != echo.MIMEApplicationForm {
		return nil, &server.Problem{Kind: server.UnsupportedMedia, Detail: "Send the form as a browser does."}
	}
	body, err := readBody(c)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, &server.Problem{Kind: server.BadRequest, Detail: "The form could not be read."}
	}
	return form, nil
}

// readJSON decodes the body as one JSON object with nothing unknown in it and nothing after it.
func readJSON(c echo.Context, v any) error {
	if mediaOf(c) != echo.MIMEApplicationJSON {
		return &server.Problem{Kind: server.UnsupportedMedia}
	}
	body, err := readBody(c)
	if err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return jsonProblem(err, int64(len(body)))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return malformed(d.InputOffset())
	}
	return nil
}

func mediaOf(c echo.Context) string {
	media, _, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if err != nil {
		return ""
	}
	return media
}

func readBody(c echo.Context) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, server.MaxBody+1))
	var known *echo.HTTPError
	switch {
	case errors.As(err, &known):
		return nil, known // the body limit's own
	case err != nil:
		return nil, &server.Problem{Kind: server.BadRequest, Detail: "The body could not be read to its end."}
	case len(body) > server.MaxBody:
		return nil, &server.Problem{Kind: server.TooLarge}
	}
	return body, nil
}

func jsonProblem(err error, size int64) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		return invalid(or(kind.Field, "body"), "wrong_type", "This has the wrong type.")
	case errors.As(err, &syntax):
		return malformed(syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return malformed(size)
	}
	// encoding/json has no type for this one, only the words.
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &server.Problem{Kind: server.UnknownField, Extra: map[string]any{"field": safeName(strings.Trim(name, `"`))}}
	}
	return malformed(0)
}

func malformed(position int64) error {
	return &server.Problem{Kind: server.MalformedJSON, Detail: "The body is not one JSON object.", Extra: map[string]any{"position": position}}
}
