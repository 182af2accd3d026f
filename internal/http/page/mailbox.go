package page

import (
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"sendcode/internal/deliver/delivery/mailbox"
	"sendcode/internal/http/server"
	"sendcode/web"
)

// Mailbox holds the mails that a developer's server sent. Implementation: *mailbox.Mailbox.
type Mailbox interface {
	Messages() []mailbox.Mail // newest first
}

// The mailbox shows each mail unchanged in a frame. mailCSP is the policy of the mail in the frame.
// It allows the mail no scripts, no origin and no network. mailboxCSP is the policy of the page
// around the frames.
const (
	mailboxCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
		"frame-src 'self'; base-uri 'none'; form-action 'none'; object-src 'none'; frame-ancestors 'none'"
	mailCSP = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'self'"
)

// mailboxContent is the data of the template mailbox.
type mailboxContent struct {
	Mails []mailbox.Mail // newest first
	Ask   string         // a command that requests a code; empty if the operator has set the API key
}

// AskCommand returns a shell command that requests a code from the service at base, as a back end
// would. The URL is quoted, because zsh would treat the brackets of an IPv6 address as a pattern.
func AskCommand(base, apiKey string) string {
	return "curl -i '" + base + "/v1/verifications' \\\n    -H 'Authorization: Bearer " + apiKey + "' \\\n" +
		"    -H 'Content-Type: application/json' \\\n" +
		`    -d '{"channel":"email","to":"ana@example.com"}'`
}

// mailboxCookie is the name of a cookie with the key of the mailbox. A browser gets the cookie when
// it opens the link of the mailbox.
const mailboxCookie = "sendcode_mailbox"

// RegisterMailbox adds the routes of the developer's mailbox, which shows codes. A request must
// contain the mailbox's key (the parameter key) as a bearer token, in the cookie, or as the URL
// parameter k. The mailbox's link has the parameter k. A request to this link gets the cookie and a
// redirect. If apiKey is not empty, it is also accepted as a bearer token. The routes answer only
// direct requests from this machine.
//
// Call RegisterMailbox only if the server listens on loopback and has no real mail server. Also
// call RegisterStatic. If generated is true, the page shows apiKey in a command, like the text that
// the service prints when it starts.
func RegisterMailbox(e *echo.Echo, box Mailbox, key, apiKey string, generated bool) {
	pages := parseTemplates("mailbox/*.html")
	g := e.Group("/mailbox", server.RequireLocal, func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if k := c.QueryParam("k"); server.SameSecret(k, key) {
				c.SetCookie(&http.Cookie{
					Name: mailboxCookie, Value: key, Path: "/mailbox", HttpOnly: true,
					SameSite: http.SameSiteLaxMode,
				})
				return c.Redirect(http.StatusSeeOther, "/mailbox")
			}
			cookie, err := c.Cookie(mailboxCookie)
			bearer, ok := server.BearerToken(c)
			if err == nil && server.SameSecret(cookie.Value, key) ||
				ok && (server.SameSecret(bearer, key) || server.SameSecret(bearer, apiKey)) {
				return next(c)
			}
			return &server.Problem{Kind: server.Unauthorized, Detail: "The mailbox shows codes: open its link, /mailbox?k=…, " +
				"as the service printed it at its start, or send SENDCODE_API_KEY as a bearer token."}
		}
	})
	g.GET("", func(c echo.Context) error {
		content := mailboxContent{Mails: box.Messages()}
		if generated {
			content.Ask = AskCommand("http://"+c.Request().Host, apiKey)
		}
		c.Response().Header().Set("Content-Security-Policy", mailboxCSP)
		return web.WritePage(c, http.StatusOK, func(w io.Writer) error { return pages.ExecuteTemplate(w, "mailbox", content) })
	})
	g.GET("/messages", func(c echo.Context) error { return c.JSON(http.StatusOK, box.Messages()) })
	g.GET("/html", func(c echo.Context) error {
		for _, m := range box.Messages() {
			if m.ID == c.QueryParam("id") && m.HTML != "" {
				c.Response().Header().Set("Content-Security-Policy", mailCSP)
				return web.WritePage(c, http.StatusOK, func(w io.Writer) error { _, err := io.WriteString(w, m.HTML); return err })
			}
		}
		return echo.ErrNotFound
	})
}
