// Package message renders the mail or text message with a code, from template files. An operator
// can replace each template file. templates/README.md describes the files.
//
// The outbox prepares the message again for each attempt to deliver it, with the remaining life of
// the code. No error contains a code. Package delivery caches the encoded parts of mails that
// differ only in code, token and similar values. The cache does not contain the codes.
//
// NewMailRenderer checks all templates of mails: it parses every file, looks up every field, and
// renders samples of every purpose, locale and setting. The samples also show whether a mail with
// NotifyPrivate keeps the code out of the preview that notifications show.
package message

import (
	"bytes"
	"cmp"
	htmltemplate "html/template"
	"io/fs"
	"strings"
	"sync"
	"time"
)

// NotifyMode says whether the code can be read without opening the mail, for example in a
// notification on a locked screen.
type NotifyMode string

const (
	// NotifyPrivate keeps the code out of the subject and out of the first 120 characters of the
	// plain text. The first 256 characters of the HTML's text do not contain the code either. Words
	// that the HTML hides are among them, since inboxes begin their previews with these. A wide
	// character, such as a Chinese character, counts as two. An empty NotifyMode means
	// NotifyPrivate.
	NotifyPrivate NotifyMode = "private"
	// NotifyGlance puts the code into the subject and the beginning of the mail. Notifications and
	// logs of mail servers then show the code.
	NotifyGlance NotifyMode = "glance"
)

// Data has the values that a template may print.
type Data struct {
	redacted
	App        string // name of the app; not empty, see CheckName
	Home       string // URL of the app's home page; may be empty
	Accent     string // the app's colour on a light background, #rrggbb; empty: the service's
	DarkAccent string // the app's colour on a dark background
	Code       string // 4 to 16 ASCII letters and digits
	Minutes    int    // how long the code is still valid, see DisplayedMinutes; 0 if the message does not say so
	Purpose    string // the purpose in words that follow "Your code for Shop"; may be empty; see CheckName
	Details    string // what the code confirms, in the caller's words; checked by CheckDetails; may be empty
	Requested  string // when the code was asked for, see DisplayedTime; may be empty; not in text messages
	Support    string // short reference for support; may be empty; see CheckName
	NotMe      string // URL where the recipient reports the mail; ends with a token; may be empty
	Hash       string // hash of the Android app for the SMS Retriever API; only in text messages; may be empty
}

// AppData returns Data with the title, home page and colours of an app and the hash of its Android
// app. If the title is empty, the app's name is the title.
func AppData(name, title string, b Brand, hash string) Data {
	return Data{App: cmp.Or(title, name), Home: b.Home, Accent: b.Light.Accent, DarkAccent: b.Dark.Accent, Hash: hash}
}

// RenderRequest describes one message to render.
type RenderRequest struct {
	App     string        // chooses the app's own templates, if it has any
	Locale  string        // a BCP 47 tag or an Accept-Language list; English is used if no language fits
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
	Site     string                        // the host of the page, for requests that name no other host; empty: there is none
	rendered cache[unfilledMail, struct{}] // forms from which a mail was rendered
}

// NewMailRenderer reads the templates of mails and renders samples with them. A file in an override
// replaces the file with the same path. The error lists all faults.
func NewMailRenderer(builtin fs.FS, overrides ...fs.FS) (*MailRenderer, error) {
	c, err := newCatalog(mailKind, builtin, overrides)
	if err != nil {
		return nil, err
	}
	return &MailRenderer{catalog: c}, nil
}

// Languages returns the languages that mails of an app can have, as BCP 47 tags, English first.
func (r *MailRenderer) Languages(app string) []string { return r.forApp(app, r).locales.All() }

// PreferredLocale returns the tag of an Accept-Language list that decides the language of the app's
// mails. If no tag of the list fits, PreferredLocale returns the first tag. If the list has no tag,
// PreferredLocale returns "". A mail for this tag alone has the same language as a mail for the
// whole list.
func (r *MailRenderer) PreferredLocale(app, list string) string {
	return r.forApp(app, r).decidingTag(list)
}

// Render renders a mail. The error names the invalid field of the request or the failed template.
// It never contains the code. It quotes the request's texts no further than CheckName does.
func (r *MailRenderer) Render(req RenderRequest) (MailTexts, error) {
	if err := checkRenderRequest(req); err != nil {
		return MailTexts{}, err
	}
	return r.formOf(req).render(req.Data.Code, req.Data.Support, req.Data.Details, tokenOf(req.Data.NotMe))
}

type templateData struct {
	Data
	Glance   bool
	Language string
	Dir      string // of the language's script: ltr or rtl
	Hours    int    // Minutes in hours, rounded down; 0 below two hours
	// Groups are the groups of characters in which the code is shown, such as "482" and "913".
	// Templates must separate the groups only by styles, so that a copied code contains no space.
	Groups []string
	// OutlookTable and OutlookTableEnd are comments with the beginning and the end of a table of
	// fixed width around the mail's content. Only Outlook on Windows reads them. It needs the
	// table, because it ignores max-width. The two texts are fields because html/template removes
	// comments from templates.
	OutlookTable, OutlookTableEnd htmltemplate.HTML
	// OriginLine is the last line of a mail with NotifyGlance; see originLine. It is empty for
	// other mails, and if no site is known.
	OriginLine string
}

const (
	outlookTable    = `<!--[if mso]><table role="presentation" width="480" align="center" cellspacing="0" cellpadding="0" border="0"><tr><td><![endif]-->`
	outlookTableEnd = "<!--[if mso]></td></tr></table><![endif]-->"
)

// Mails of apps without colours have these colours. web/static/tokens.css has the same values.
const (
	defaultAccent     = "#1f5fd1"
	defaultDarkAccent = "#8ab4ff"
)

// DisplayedMinutes returns the remaining life of a code in minutes, rounded down, but at least 1.
// DisplayedMinutes first adds deliverySlack to the remaining life, so that the message with a new
// code shows the code's full life.
func DisplayedMinutes(left time.Duration) int { return max(1, int((left+deliverySlack)/time.Minute)) }

// DisplayedTime returns a time for Data.Requested, as in "14:05 UTC". It has no seconds, so that
// the mails of a minute have one form.
func DisplayedTime(t time.Time) string {
	t = t.UTC()
	first := (t.Hour()*60 + t.Minute()) * len(displayedTime)
	return minutesOfDay()[first : first+len(displayedTime)]
}

const displayedTime = "15:04 UTC"

// minutesOfDay has the texts of all minutes one after the other, so that DisplayedTime allocates
// nothing.
var minutesOfDay = sync.OnceValue(func() string {
	var b strings.Builder
	for n := range 24 * 60 {
		b.WriteString(time.Unix(int64(n)*60, 0).UTC().Format(displayedTime))
	}
	return b.String()
})

// deliverySlack is the time that may pass between the request for a code and the rendering of the
// message.
const deliverySlack = 2 * time.Second

func newTemplateData(d Data, glance bool, locale string) templateData {
	groups := []string{d.Code}
	if half := len(d.Code) / 2; half >= 3 && len(d.Code)%2 == 0 {
		groups = []string{d.Code[:half], d.Code[half:]}
	}
	d.Details = unlinked(d.Details)
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

// showsDetails reports whether a rendered part shows the details, as unlinked writes them. A
// message must show them, because the proof states that it did.
func showsDetails(part int, out, details string) bool {
	if details == "" {
		return true
	}
	if part == htmlPart {
		out = htmlText(out, false)
	}
	oneLine := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return strings.Contains(oneLine(out), oneLine(unlinked(details)))
}

// collapseBlankLines removes spaces at the ends of lines, and replaces several empty lines by one
// empty line. Conditions in templates leave such spaces and lines.
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
