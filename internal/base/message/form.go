package message

import (
	"cmp"
	"fmt"
	"path"
)

// unfilledMail is the form of a mail: everything except the values that Texts fills in. These
// values are the code, the support reference, the details and the last segment of Data.NotMe.
// Callers compare forms with ==, to recognize mails that differ only in these values.
type unfilledMail struct {
	renderer *MailRenderer
	key      templateSetKey
	glance   bool
	site     string // for the origin line; empty: the mail has no such line
	data     Data   // without the values that Texts fills in
	digits   int    // characters of the code
	support  int    // characters of the support reference
}

// maxUnfilledMails bounds MailRenderer.rendered. Mails of one form have the same purpose, locale,
// app, Minutes and Requested, so a busy service has many forms.
const maxUnfilledMails = 512

// PreparedMail is a mail that is not rendered yet.
type PreparedMail struct {
	redacted
	Form     unfilledMail
	Fill     string // the code, the support reference and the details
	Token    string // the last segment of Data.NotMe: Form.Texts(Fill, Token) renders the mail
	Language string // the locale that was chosen, one of Languages
}

// Prepare returns a mail that Form.Texts renders later. Prepare also renders the first mail of each
// form, and each mail with details, at once, and returns the errors of Render. For other mails,
// Prepare checks only Notify and the code. The support reference and the token must therefore not
// be user input. The caller must also have checked the details with CheckDetails.
func (r *MailRenderer) Prepare(req RenderRequest) (PreparedMail, error) {
	if err := checkCodeAndNotifyMode(req); err != nil {
		return PreparedMail{}, err
	}
	form := r.formOf(req)
	rendered := &form.renderer.rendered
	if _, ok := rendered.getCached(form); !ok || req.Data.Details != "" {
		if _, err := r.Render(req); err != nil {
			return PreparedMail{}, err
		}
		rendered.putCached(form, struct{}{}, maxUnfilledMails)
	}
	return PreparedMail{
		Form: form, Fill: req.Data.Code + req.Data.Support + req.Data.Details, Token: tokenOf(req.Data.NotMe), Language: form.key.locale,
	}, nil
}

// tokenOf returns the last segment of a URL.
func tokenOf(url string) string {
	_, token := path.Split(url)
	return token
}

func (r *MailRenderer) formOf(req RenderRequest) unfilledMail {
	r = r.forApp(req.App, r)
	key, _ := r.find(req.Purpose, req.Locale)
	f := unfilledMail{renderer: r, key: key, glance: req.Notify == NotifyGlance, data: req.Data, digits: len(req.Data.Code)}
	if f.glance {
		f.site = cmp.Or(req.Site, r.Site)
	}
	f.data.Code, f.data.Support, f.data.Purpose = "", "", cmp.Or(req.Data.Purpose, req.Titles.ForLocaleOrEmpty(key.locale))
	f.data.NotMe, _ = path.Split(req.Data.NotMe)
	f.data.Details, f.support = "", len(req.Data.Support)
	return f
}

// Texts renders the mail. fill is the code, the support reference and the details, joined without
// separators. The error contains no part of fill or token.
func (u unfilledMail) Texts(fill, token string) (subject, text, html string, err error) {
	m, err := u.render(fill[:u.digits], fill[u.digits:u.digits+u.support], fill[u.digits+u.support:], token)
	return m.Subject, m.Text, m.HTML, err
}

func (u unfilledMail) render(code, support, details, token string) (MailTexts, error) {
	d := u.data
	d.Code, d.Support, d.Details, d.NotMe = code, support, details, d.NotMe+token
	v := newTemplateData(d, u.glance, u.key.locale)
	if u.site != "" {
		v.OriginLine = originLine(u.site, code)
	}
	var done [partCount]string
	for part, t := range u.renderer.sets[u.key] {
		out, err := renderPart(part, t, v)
		if err != nil {
			return MailTexts{}, fmt.Errorf("message: template %s failed", t.Name()) // the reason may quote the code
		}
		if part != subjectPart && !showsDetails(part, out, details) {
			return MailTexts{}, fmt.Errorf("message: template %s does not show the details", t.Name())
		}
		done[part] = out
	}
	if u.site != "" {
		done[textPart] += "\n" + v.OriginLine + "\n"
	}
	return MailTexts{Subject: done[subjectPart], Text: done[textPart], HTML: done[htmlPart], Language: u.key.locale}, nil
}
