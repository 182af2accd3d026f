package layout

import (
	"errors"
	"io"
	"mime"
	"net/url"

	"github.com/labstack/echo/v4"

	"sendcode/internal/server"
	"sendcode/internal/verification"
)

// Form returns a handler that reads a form and passes its fields to handle.
func Form(handle func(c echo.Context, form url.Values) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		form, err := readForm(c)
		if err != nil {
			return err
		}
		return handle(c, form)
	}
}

// readForm reads a form's fields from the body only, not from the URL.
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

// Invalid returns the error of a field with a wrong value.
func Invalid(field, reason, detail string) error {
	return &verification.InvalidError{Field: field, Reason: reason, Detail: detail}
}
