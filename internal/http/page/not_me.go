package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html/template"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/message"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/web"
)

// NotMePath is the path of a mail's link, without the token at its end.
const NotMePath = "/not-me/"

// notMeReports finds a mail's verification and reports it as unwanted. The link in the mail has the
// token of the verification. verification.Service implements notMeReports.
type notMeReports interface {
	MailedCode(ctx context.Context, token string) (store.Verification, error)
	ReportNotMe(ctx context.Context, token string) (store.Verification, error)
}

// RegisterNotMe adds a page for the links in mails. There the recipient of a mail can report that
// they did not request the mail. Opening the page changes nothing, because mail scanners also open
// links. The function of returns an app's name for people, and its brand.
func RegisterNotMe(e *echo.Echo, reports notMeReports, of func(app string) (title string, brand message.Brand)) {
	serve := func(find func(context.Context, string) (store.Verification, error)) echo.HandlerFunc {
		return func(c echo.Context) error {
			v, err := find(c.Request().Context(), c.Param("token"))
			status := http.StatusOK
			if errors.Is(err, fault.NotFound) {
				status = http.StatusNotFound
			} else if err != nil {
				return err
			}
			words := texts.PageTextsFor(c.Request().Header.Get("Accept-Language")).Section(texts.PageSection)
			key := "NotMe"
			switch {
			case err != nil:
				key = "NotMeGone"
			case !v.NotMeAt.IsZero() && !v.ApprovedAt.IsZero():
				key = "NotMeUsed"
			case !v.NotMeAt.IsZero():
				key = "NotMeDone"
			}
			title, brand := of(v.App)
			fill := strings.NewReplacer("{to}", v.To, "{app}", cmp.Or(title, v.App))
			style := brand.StyleSheet()
			if style != "" {
				sum := sha256.Sum256([]byte(style))
				server.AllowCSPSource(c, "style-src", "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
			}
			if brand.Logo != "" {
				server.AllowCSPSource(c, "img-src", brand.Logo)
			}
			h := c.Response().Header()
			h.Set("Cache-Control", "no-store")
			h.Set("Content-Language", words["Lang"])
			h.Add("Vary", "Accept-Language")
			return web.WritePage(c, status, func(w io.Writer) error {
				return templates().ExecuteTemplate(w, "not-me", map[string]any{
					"T": words, "Title": fill.Replace(words[key]), "Lead": fill.Replace(words[key+"Lead"]), "Ask": key == "NotMe",
					"Token": c.Param("token"), "App": title, "Brand": brand, "Style": template.CSS(style),
				})
			})
		}
	}
	e.GET(NotMePath+":token", serve(reports.MailedCode))
	e.POST(NotMePath+":token", serve(reports.ReportNotMe), server.RequireSameOrigin)
}
