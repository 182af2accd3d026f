package page

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"sendcode/internal/recipient"
	"sendcode/internal/texts"
)

// wordsFor returns the words of the language that the browser prefers, as they speak of mails.
func wordsFor(r *http.Request) words {
	return languages()[texts.ForPage(r.Header.Get("Accept-Language")).Lang()][recipient.Email]
}

// fragmentHeader is how the script asks for the card alone. A custom header also keeps other sites
// from asking: theirs would need a CORS preflight, which is not answered.
const fragmentHeader = "X-Fragment"

// maxForm bounds a post in bytes. The largest honest one, an address in percent-encoding, is a
// tenth of it.
const maxForm = 16 << 10

// readForm reads a posted form from the body only, never from the URL.
func readForm(c echo.Context) (url.Values, error) {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, echo.NewHTTPError(http.StatusBadRequest, "form could not be read").SetInternal(err)
	}
	return r.PostForm, nil
}
