package message

import "fmt"

// Form is a kind of mails, which differ in the code and the support reference only. It holds neither. Forms are compared with ==.
type Form struct {
	renderer *Renderer
	key      setKey
	glance   bool
	data     Data // without Code and Support
	digits   int  // characters of the code
}

// maxForms bounds the forms that are known to render: there is one for each combination of purpose, locale, app and minutes.
const maxForms = 512

// Prepared is a mail that is not rendered yet.
type Prepared struct {
	redacted
	Form     Form
	Fill     string // the code and the support reference: Form.Texts(Fill) renders the mail
	Language string // the locale that was chosen, as in Locales
}

// Prepare returns a mail that Form.Texts renders later. The first mail of each form it renders itself, to return the errors of Render. Of
// later mails, whose names are those of the first, it checks only Notify and the code: their support references must be ours.
func (r *Renderer) Prepare(req Request) (Prepared, error) {
	if err := checkCode(req); err != nil {
		return Prepared{}, err
	}
	form := r.form(req)
	known := &form.renderer.rendered
	if _, ok := known.get(form); !ok {
		if _, err := r.Render(req); err != nil {
			return Prepared{}, err
		}
		known.put(form, struct{}{}, maxForms)
	}
	return Prepared{Form: form, Fill: req.Data.Code + req.Data.Support, Language: form.key.locale}, nil
}

func (r *Renderer) form(req Request) Form {
	r = r.forApp(req.App, r)
	key, _ := r.find(req.Purpose, req.Locale)
	f := Form{renderer: r, key: key, glance: req.Notify == Glance, data: req.Data, digits: len(req.Data.Code)}
	f.data.Code, f.data.Support = "", ""
	return f
}

// Texts renders the mail with this code and support reference, one after the other. The error has neither.
func (f Form) Texts(fill string) (subject, text, html string, err error) {
	f.data.Code, f.data.Support = fill[:f.digits], fill[f.digits:]
	m, err := f.render(f.data)
	return m.Subject, m.Text, m.HTML, err
}

// render runs the templates.
func (f Form) render(d Data) (Message, error) {
	var done [partCount]string
	for part, t := range f.renderer.sets[f.key] {
		out, err := renderPart(part, t, newView(d, f.glance, f.key.locale))
		if err != nil {
			return Message{}, fmt.Errorf("message: template %s failed", t.Name()) // the reason may quote the code
		}
		done[part] = out
	}
	return Message{Subject: done[subjectPart], Text: done[textPart], HTML: done[htmlPart], Language: f.key.locale}, nil
}
