package page

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
)

// wordsFor returns the words in the language that the browser prefers, for mails.
func wordsFor(r *http.Request) words {
	return wordsByLanguage()[texts.ForPage(r.Header.Get("Accept-Language")).Lang()][recipient.Email]
}

// fragmentHeader is the request header by which the script asks for the card without the page.
// Other sites cannot ask for it: a custom header needs a CORS preflight, which the server does not
// answer.
const fragmentHeader = "X-Fragment"

// maxFormSize is the largest accepted form, in bytes. The largest honest one, with an address in
// percent-encoding, has a tenth of it.
const maxFormSize = 16 << 10

// readForm reads a posted form from the body only, never from the URL.
func readForm(c echo.Context) (url.Values, error) {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, maxFormSize)
	if err := r.ParseForm(); err != nil {
		return nil, echo.NewHTTPError(http.StatusBadRequest, "form could not be read").SetInternal(err)
	}
	return r.PostForm, nil
}
