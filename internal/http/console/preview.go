package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/verify/support"
)

// The values of Content-Security-Policy. previewCSP lets the page hold frames of its own site.
// sampleCSP is for the mail in a frame: no scripts, no origin, nothing from the network.
const (
	previewCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-src 'self'; " +
		"base-uri 'none'; form-action 'self'; object-src 'none'; frame-ancestors 'none'"
	sampleCSP = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'self'"
)

// previewView is the page of a purpose's messages.
type previewView struct {
	layout.Page
	Apps, Purposes []string
	App, Purpose   string
	Samples        []support.SampleMessage
	May            bool // the reader may send previews
	Problem        string
	Typed          support.PreviewRequest
}

// appAndPurpose returns the app and the purpose that a request names, else "default" or the first
// one, and the lists of all.
func (console *Console) appAndPurpose(values url.Values) (app, purpose string, apps, purposes []string) {
	apps, purposes = console.Administration.AppsAndPurposes()
	first := func(list []string, preferred string) string {
		if len(list) == 0 || slices.Contains(list, preferred) {
			return preferred
		}
		return list[0]
	}
	return cmp.Or(values.Get("app"), first(apps, "default")), cmp.Or(values.Get("purpose"), first(purposes, "default")),
		apps, purposes
}

func (console *Console) previewPage(c echo.Context) error {
	return console.showPreview(c, http.StatusOK, c.QueryParams(), previewIn(c.QueryParams()), "")
}

func (console *Console) showPreview(c echo.Context, status int, values url.Values, typed support.PreviewRequest,
	problem string,
) error {
	v := previewView{
		Page: layout.NewPage(c, "preview.title", "preview"), May: auth.ActorOf(c).May(auth.ActionPreview),
		Problem: problem, Typed: typed,
	}
	v.App, v.Purpose, v.Apps, v.Purposes = console.appAndPurpose(values)
	var err error
	if v.Samples, err = console.Administration.SampleMessages(v.App, v.Purpose); err != nil {
		return err
	}
	c.Response().Header().Set("Content-Security-Policy", previewCSP)
	return console.layout.Show(c, status, "preview", v)
}

// Locales returns the languages of the samples, in their order.
func (v previewView) Locales() (list []string) {
	for _, s := range v.Samples {
		if !slices.Contains(list, s.Locale) {
			list = append(list, s.Locale)
		}
	}
	return list
}

// HasTextMessages reports whether text messages can be sent.
func (v previewView) HasTextMessages() bool {
	return slices.ContainsFunc(v.Samples, func(s support.SampleMessage) bool { return s.Channel == recipient.SMS })
}

// previewHTML answers with one mail's HTML, for its frame.
func (console *Console) previewHTML(c echo.Context) error {
	app, purpose, _, _ := console.appAndPurpose(c.QueryParams())
	samples, err := console.Administration.SampleMessages(app, purpose)
	if err != nil {
		return err
	}
	for _, s := range samples {
		if s.HTML != "" && s.Locale == c.QueryParam("locale") {
			c.Response().Header().Set("Content-Security-Policy", sampleCSP)
			return c.HTML(http.StatusOK, s.HTML)
		}
	}
	return fault.NotFound
}

func previewIn(form url.Values) support.PreviewRequest {
	return support.PreviewRequest{
		App: form.Get("app"), Purpose: form.Get("purpose"),
		Channel: cmp.Or(form.Get("channel"), string(recipient.Email)),
		To:      strings.TrimSpace(form.Get("to")), Locale: form.Get("locale"),
	}
}

// sendPreview sends a message to the recipient in the form and redirects to its page, or shows the
// problem.
func (console *Console) sendPreview(c echo.Context, form url.Values) error {
	act, err := console.auth.NewAuditEntry(c, auth.ActionPreview)
	if err != nil {
		return err
	}
	act.Reason = "preview"
	trial := previewIn(form)
	trial.From = server.ClientIP(c)
	answer, err := console.Administration.SendPreview(c.Request().Context(), trial, act)
	err = actionErrorOf(answer, err, "preview.problem.limited")
	if status, problem := console.formProblem(c, err); problem != "" {
		trial.To = "" // a refused form does not show a full recipient again
		return console.showPreview(c, status, form, trial, problem)
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/admin/sends/"+answer.View.Send.ID)
}
