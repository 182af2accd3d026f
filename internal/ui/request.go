package ui

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"
)

// fragmentHeader is how the script asks for the card alone. A custom header also keeps other sites from asking: theirs
// would need a CORS preflight, which nobody answers.
const fragmentHeader = "X-Fragment"

func wantsFragment(c echo.Context) bool { return c.Request().Header.Get(fragmentHeader) == "card" }

// maxForm bounds a post in bytes. The largest honest one, an address in percent-encoding, is a tenth of it.
const maxForm = 16 << 10

// form reads a posted form from the body alone: nothing that an address could carry reaches it.
func form(c echo.Context) (url.Values, error) {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, echo.NewHTTPError(http.StatusBadRequest, "form could not be read").SetInternal(err)
	}
	return r.PostForm, nil
}
