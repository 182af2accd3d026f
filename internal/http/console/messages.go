package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/verify/support"
)

const cspHeader = "Content-Security-Policy"

// sampleCSP is for a mail in a frame: no scripts, no origin, nothing from the network.
const sampleCSP = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'self'"

// messagesAnswer are the messages of a purpose for an app.
type messagesAnswer struct {
	App      string                  `json:"app"`
	Purpose  string                  `json:"purpose"`
	Messages []support.SampleMessage `json:"messages"`
}

// messagesView is the page of messagesAnswer.
type messagesView struct {
	layout.Page
	messagesAnswer
	Apps, Purposes []string
}

// messages returns the messages for the app and the purpose in a query, by default those that are
// called "default" or else the first.
func (console *Console) messages(query url.Values) (v messagesView, err error) {
	v.Apps, v.Purposes = console.Administration.AppsAndPurposes()
	first := func(list []string) string {
		if len(list) == 0 || slices.Contains(list, "default") {
			return "default"
		}
		return list[0]
	}
	v.App, v.Purpose = cmp.Or(query.Get("app"), first(v.Apps)), cmp.Or(query.Get("purpose"), first(v.Purposes))
	v.Messages, err = console.Administration.Messages(v.App, v.Purpose)
	return v, err
}

func (console *Console) messagesPage(c echo.Context) error {
	v, err := console.messages(c.QueryParams())
	if err != nil {
		return err
	}
	v.Page = layout.NewPage(c, "messages.title", "messages")
	h := c.Response().Header()
	h.Set(cspHeader, h.Get(cspHeader)+"; frame-src 'self'")
	return console.layout.Show(c, http.StatusOK, "messages", v)
}

// messageHTML answers with the HTML of one mail, for its frame on the page.
func (console *Console) messageHTML(c echo.Context) error {
	v, err := console.messages(c.QueryParams())
	if err != nil {
		return err
	}
	for _, m := range v.Messages {
		if m.HTML != "" && m.Language == c.QueryParam("language") {
			c.Response().Header().Set(cspHeader, sampleCSP)
			return c.HTML(http.StatusOK, m.HTML)
		}
	}
	return fault.NotFound
}

func (console *Console) messagesJSON(c echo.Context) error {
	v, err := console.messages(c.QueryParams())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, v.messagesAnswer)
}
