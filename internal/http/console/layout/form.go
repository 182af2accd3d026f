package layout

import (
	"mime"
	"net/url"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/server"
)

// FormHandler returns a handler that reads the form in the body of a request and passes its fields
// to handle. It ignores parameters of the URL.
func FormHandler(handle func(c echo.Context, form url.Values) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		media, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
		if err != nil || media != echo.MIMEApplicationForm {
			return &server.Problem{Kind: server.UnsupportedMedia, Detail: "Send the form as a browser does."}
		}
		if err := r.ParseForm(); err != nil {
			return server.UnreadableBodyProblem(err)
		}
		return handle(c, r.PostForm)
	}
}
