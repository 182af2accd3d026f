package message

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// TextLimits are limits and options of text messages.
type TextLimits struct {
	// Measure counts the segments in which a carrier sends a text.
	Measure func(text string) int
	// Segments is how many segments one text may take.
	Segments int
	// Site is the host that the last line of a text message names if the request names no other
	// site; see originLine. Without either, the message has no such line.
	Site string
}

// RenderedText is a text message without its recipient.
type RenderedText struct {
	redacted
	Text     string
	Language string // the locale that was chosen, one of Languages
	Segments int
}

// TextRenderer renders text messages from templates that NewTextRenderer has checked. Safe for
// concurrent use.
type TextRenderer struct {
	appRenderers[TextRenderer]
	*catalog
	limits TextLimits
}

// NewTextRenderer reads and checks the templates of text messages, as NewMailRenderer does for
// mails. An override need not have text messages. NewTextRenderer does not check the length of
// messages, but CheckLength does.
func NewTextRenderer(limits TextLimits, builtin fs.FS, overrides ...fs.FS) (*TextRenderer, error) {
	c, err := newCatalog(textKind, builtin, overrides)
	if err != nil {
		return nil, err
	}
	return &TextRenderer{catalog: c, limits: limits}, nil
}

// CheckLength renders all templates with a code of codeLength characters, the site, and app's data,
// such as its title and the hash of its Android app. The error lists the templates whose messages
// need too many segments.
func (t *TextRenderer) CheckLength(app Data, site string, codeLength int) error {
	app.Code, app.Minutes = strings.Repeat("7", codeLength), 10
	var errs []error
	for key, s := range t.sets {
		text, err := t.render(key, s, app, site)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if text.Segments > t.limits.Segments {
			errs = append(errs, fmt.Errorf(
				"%s takes %d segments for the app that is called %q, and may take %d: shorten it or the title, or "+
					"raise sms: segments", s[textPart].Name(), text.Segments, app.App, t.limits.Segments))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// Languages does the same as [MailRenderer.Languages], for text messages.
func (t *TextRenderer) Languages(app string) []string { return t.forApp(app, t).locales.All() }

// PreferredLocale does the same as [MailRenderer.PreferredLocale], for text messages.
func (t *TextRenderer) PreferredLocale(app, list string) string {
	return t.forApp(app, t).decidingTag(list)
}

// originLine returns the last line of a message. Because of this line, a browser fills in the code
// only on pages of the named site (WICG sms-one-time-codes).
func originLine(site, code string) string { return "@" + site + " #" + code }

// Render renders a text message. It adds an origin line, unless the line would make too many
// segments. The error is like that of [MailRenderer.Render]. Render ignores Notify.
func (t *TextRenderer) Render(req RenderRequest) (RenderedText, error) {
	t = t.forApp(req.App, t)
	req.Notify = NotifyGlance
	if err := checkRenderRequest(req); err != nil {
		return RenderedText{}, err
	}
	key, s := t.find(req.Purpose, req.Locale)
	req.Data.Purpose = cmp.Or(req.Data.Purpose, req.Titles.ForLocaleOrEmpty(key.locale))
	text, err := t.render(key, s, req.Data, cmp.Or(req.Site, t.limits.Site))
	if err == nil && text.Segments > t.limits.Segments {
		return t.render(key, s, req.Data, "")
	}
	return text, err
}

// render renders a text message that ends with an origin line for the site. If site is empty, the
// message has no origin line.
func (t *TextRenderer) render(key templateSetKey, s templateSet, data Data, site string) (RenderedText, error) {
	out, err := renderPart(textPart, s[textPart], newTemplateData(data, true, key.locale))
	if err != nil {
		return RenderedText{}, fmt.Errorf("message: template %s failed", s[textPart].Name()) // the reason may quote the code
	}
	if !showsDetails(textPart, out, data.Details) {
		return RenderedText{}, fmt.Errorf("message: template %s does not show the details", s[textPart].Name())
	}
	out = strings.TrimSpace(out)
	if site != "" {
		out += "\n" + originLine(site, data.Code)
	}
	return RenderedText{Text: out, Language: key.locale, Segments: t.limits.Measure(out)}, nil
}
