// Package message renders the mail or text message of a code, from template files that an operator
// can replace one by one. templates/README.md describes the files.
//
// The outbox prepares a message at each attempt, with the remaining life of the code. No error
// contains a code. Package delivery keeps the encoded parts of mails with the same form, without
// their codes.
//
// NewMailRenderer checks all templates of mails: it parses every file, looks up every field, and
// renders samples of every purpose, locale and setting. A sample also shows whether a private mail
// keeps its code out of a preview.
package message

import (
	"bytes"
	"cmp"
	htmltemplate "html/template"
	"io/fs"
	"strings"
	"time"
)

// NotifyMode says how much of a code may be read without opening the mail, for example on a locked
// screen.
type NotifyMode string

const (
	// NotifyPrivate keeps the code out of the subject, the first 120 characters of the plain text,
	// and the first 256 of the HTML's text, with and without hidden elements. A wide character,
	// such as a Chinese one, counts as two. NotifyPrivate is the default.
	NotifyPrivate NotifyMode = "private"
	// NotifyGlance puts the code into the subject and at the beginning, where notifications and
	// logs of mail servers show it.
	NotifyGlance NotifyMode = "glance"
)

// Data has the values that a template may print.
type Data struct {
	redacted
	App        string // name of the app; not empty, see CheckName
	Home       string // URL of the app's home page; may be empty
	Accent     string // the app's colour on a light background, #rrggbb; empty: the service's
	DarkAccent string // the same on a dark background
	Code       string // 4 to 16 ASCII letters and digits
	Minutes    int    // for which the code is still valid, see DisplayedMinutes; 0: the message does not say
	Purpose    string // the purpose in words that follow "Your code for Shop"; may be empty; see CheckName
	Details    string // what the code confirms, in the caller's words; checked by CheckText; may be empty
	Support    string // short reference for support; may be empty; see CheckName
	NotMe      string // URL by which the recipient reports the mail, ending in a token; may be empty
	Hash       string // the Android app's, for the SMS Retriever API; only in text messages; may be empty
}

// AppData returns the data on an app: its title or, if that is empty, its name; its home page and
// colours; and the hash of its Android app.
func AppData(name, title string, b Brand, hash string) Data {
	return Data{App: cmp.Or(title, name), Home: b.Home, Accent: b.Light.Accent, DarkAccent: b.Dark.Accent, Hash: hash}
}

// RenderRequest describes one message to render.
type RenderRequest struct {
	App     string        // chooses the app's own templates, if it has any
	Locale  string        // a BCP 47 tag or an Accept-Language list; English if it is invalid or not available
	Purpose string        // chooses the templates; a purpose without any has those of "default"
	Notify  NotifyMode    // empty: NotifyPrivate
	Site    string        // the host on which the code is entered; empty: the page's
	Titles  PurposeTitles // if Data.Purpose is empty, the title in the message's language replaces it
	Data    Data
}

// MailTexts is a mail without its addresses.
type MailTexts struct {
	redacted
	Subject  string // one line
	Text     string // plain text, lines end with "\n"
	HTML     string
	Language string // the BCP 47 tag of the language that was chosen
}

// MailRenderer renders mails from templates that NewMailRenderer has checked. Safe for concurrent
// use.
type MailRenderer struct {
	appRenderers[MailRenderer]
	*catalog
	Site     string                        // of the page, for requests that name no other; empty: none
	rendered cache[unfilledMail, struct{}] // forms from which a mail was rendered
}

// NewMailRenderer reads the templates of mails and tries them. A file in an override replaces the
// file with the same path. The error lists all faults.
func NewMailRenderer(builtin fs.FS, overrides ...fs.FS) (*MailRenderer, error) {
	c, err := newCatalog(mailKind, builtin, overrides)
	if err != nil {
		return nil, err
	}
	return &MailRenderer{catalog: c}, nil
}

// PreferredLocale returns the tag of an Accept-Language list that decides the language of the app's
// mails, or the first tag; empty if the list is invalid. A mail has the same language with this tag
// as with the whole list.
func (r *MailRenderer) PreferredLocale(app, list string) string {
	return r.forApp(app, r).preferredTag(list)
}

// Render renders a message. The error names the wrong field of the request or the template. It
// contains neither the code nor any text of the request.
func (r *MailRenderer) Render(req RenderRequest) (MailTexts, error) {
	if err := checkRequest(req); err != nil {
		return MailTexts{}, err
	}
	return r.formOf(req).render(req.Data.Code, req.Data.Support, req.Data.Details, tokenOf(req.Data.NotMe))
}

// templateData is the data of the templates.
type templateData struct {
	Data
	Glance   bool
	Language string
	Dir      string // of the language's script: ltr or rtl
	Hours    int    // Minutes in hours, rounded down; 0 below two hours
	// Groups are the groups of characters in which the code is shown, such as "482" and "913". Only
	// styles may separate them, so that a copied code contains no space.
	Groups []string
	// OutlookTable and OutlookTableEnd enclose the card, for Outlook on Windows, which ignores
	// max-width. They are data, since html/template removes comments from templates.
	OutlookTable, OutlookTableEnd htmltemplate.HTML
	// OriginLine ends a mail that may show its code; empty for other mails.
	OriginLine string
}

const (
	outlookTable    = `<!--[if mso]><table role="presentation" width="480" align="center" cellspacing="0" cellpadding="0" border="0"><tr><td><![endif]-->`
	outlookTableEnd = "<!--[if mso]></td></tr></table><![endif]-->"
)

// The colours of mails, for apps without their own colours; the same as in web/static/tokens.css.
const (
	defaultAccent     = "#1f5fd1"
	defaultDarkAccent = "#8ab4ff"
)

// DisplayedMinutes returns the remaining life of a code in minutes, rounded down, at least 1. It
// first adds deliverySlack, so that a new code shows its full life.
func DisplayedMinutes(left time.Duration) int { return max(1, int((left+deliverySlack)/time.Minute)) }

// deliverySlack is the time that a send may take until its message is rendered.
const deliverySlack = 2 * time.Second

func newTemplateData(d Data, glance bool, locale string) templateData {
	groups := []string{d.Code}
	if half := len(d.Code) / 2; half >= 3 && len(d.Code)%2 == 0 {
		groups = []string{d.Code[:half], d.Code[half:]}
	}
	d.Accent, d.DarkAccent = cmp.Or(d.Accent, defaultAccent), cmp.Or(d.DarkAccent, defaultDarkAccent)
	v := templateData{
		Data: d, Glance: glance, Language: locale, Dir: textDirection(locale), Groups: groups,
		OutlookTable: outlookTable, OutlookTableEnd: outlookTableEnd,
	}
	if d.Minutes >= 120 {
		v.Hours = d.Minutes / 60
	}
	return v
}

// renderPart renders one part and normalizes its white space.
func renderPart(i int, t template, v templateData) (string, error) {
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return "", err
	}
	switch i {
	case subjectPart:
		return strings.Join(strings.Fields(out.String()), " "), nil
	case textPart:
		return collapseBlankLines(out.String()), nil
	}
	return strings.TrimSpace(out.String()) + "\n", nil
}

// collapseBlankLines removes spaces at the ends of lines and repeated empty lines, which template
// conditions leave.
func collapseBlankLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" && (len(lines) == 0 || lines[len(lines)-1] == "") {
			continue
		}
		lines = append(lines, line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n")) + "\n"
}
