package console

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/verify/support"
	"sendcode/web"
)

const cspHeader = "Content-Security-Policy"

// sampleCSP is for a mail in a frame: no scripts, no origin, nothing from the network.
const sampleCSP = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'self'"

// messagesAnswer has the messages of a purpose for an app.
type messagesAnswer struct {
	App      string                  `json:"app"`
	Purpose  string                  `json:"purpose"`
	Messages []support.SampleMessage `json:"messages"`
}

// messagesView is the data of the page that shows a messagesAnswer.
type messagesView struct {
	layout.Page
	messagesAnswer
	Mistake        layout.FilterMistake // if it is set, the page has only the form
	Apps, Purposes []string
	MayTest        bool
	Test           testedMessage
}

// testedMessage has the result of a test message. The zero value means that no test message was
// requested.
type testedMessage struct {
	To, ResultText string
	OK             bool
	Unknown        bool // no server said whether it accepted the message
}

// messages returns the messages for the app and the purpose in a query. By default, these are the
// app and the purpose called "default", or else the first ones.
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
	return console.showMessages(c, http.StatusOK, c.QueryParams(), testedMessage{})
}

func (console *Console) showMessages(c echo.Context, status int, query url.Values, tested testedMessage) error {
	v, err := console.messages(query)
	var wrong bool
	if v.Mistake, _, wrong = layout.FilterMistakeOf(query.Encode(), err, layout.Words(c)); err != nil && !wrong {
		return err
	}
	if known := map[string][]string{"app": v.Apps, "purpose": v.Purposes}[v.Mistake.Field]; known != nil {
		w := layout.Words(c)
		v.Mistake = v.Mistake.WithProblem(w.Get("parameter.choice", "values", strings.Join(known, ", ")), w)
	}
	status = v.Mistake.StatusOr(status)
	v.Page = layout.NewPage(c, "messages.title", "messages")
	v.MayTest, v.Test = auth.ActorOf(c).May(auth.ActionTestMessage), tested
	h := c.Response().Header()
	h.Set(cspHeader, h.Get(cspHeader)+"; frame-src 'self'")
	return console.layout.Show(c, status, "messages", v)
}

// testMessageForm sends a test message in the reader's language, and shows which server or carrier
// accepted or refused it.
func (console *Console) testMessageForm(c echo.Context, form url.Values) error {
	w, t := layout.Words(c), testedMessage{To: form.Get("to")}
	if _, err := console.messages(form); err != nil { // read first: without the messages, the page could not show the result
		return err
	}
	act, err := console.auth.NewAuditEntry(c, auth.ActionTestMessage)
	if err != nil {
		return err
	}
	server.SetAnswerTime(c, support.TestMessageTimeout+writeTimeout)
	result, err := console.Administration.SendTestMessage(c.Request().Context(), form.Get("app"), t.To, w.Lang(), act)
	limited, tooSoon := errors.AsType[*support.TestMessageLimitError](err)
	bad, invalid := errors.AsType[*fault.InvalidError](err)
	switch {
	case tooSoon:
		server.SetRetryAfter(c, limited.RetryAfter)
		t.ResultText = w.Get("messages.test.wait", "wait", w.Wait(limited.RetryAfter))
		return console.showMessages(c, http.StatusTooManyRequests, form, t)
	case invalid && bad.Field == "to":
		t.ResultText = cmp.Or(w.Get("search.reason."+bad.Reason), w.Get("unserved."+bad.Reason), bad.Detail)
	case errors.Is(err, support.ErrSuppressed):
		t.ResultText = w.Get("messages.test.suppressed")
	case errors.Is(err, support.ErrNoCarrier):
		t.ResultText = w.Get("messages.test.no_carrier")
	case err != nil:
		return err
	}
	if t.ResultText != "" {
		return console.showMessages(c, server.InvalidField.Status, form, t)
	}
	key := "messages.test.refused"
	switch t.OK = result.Accepted; {
	case t.OK:
		key = "messages.test.accepted"
	case result.Unknown:
		key, t.Unknown = "messages.test.unknown", true
	}
	t.ResultText = w.Get(key, "by", cmp.Or(result.By, "–"), "to", result.To, "took", w.Elapsed(result.Took), "answer", result.Answer)
	return console.showMessages(c, http.StatusOK, form, t)
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
			return web.WritePage(c, http.StatusOK, func(w io.Writer) error { _, err := io.WriteString(w, m.HTML); return err })
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
