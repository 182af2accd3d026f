package message

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	texttemplate "text/template"
)

const (
	textsRoot = "sms"
	textFile  = "text.txt"
)

// TextLimits are limits and options of text messages.
type TextLimits struct {
	// Measure counts the segments that a text takes on the air.
	Measure func(text string) int
	// Segments is how many one text may take.
	Segments int
	// Origin is the host of the page that codes are entered on; with it the last line is "@host #code", which browsers fill
	// in from (WICG sms-one-time-codes). Empty: there is no such line.
	Origin string
}

// Text is a text message without its recipient.
type Text struct {
	Text     string
	Language string // the locale that was chosen
	Segments int
}

// Texts renders text messages from templates that NewTexts has checked. Safe for concurrent use.
type Texts struct {
	own[Texts]
	limits  TextLimits
	chooser *Renderer // of locales only
	sets    map[setKey]*texttemplate.Template
}

// NewTexts reads and parses all templates of text messages; trees and errors are as with New, and an override need
// not have any. Fit tries their length.
func NewTexts(limits TextLimits, builtin fs.FS, overrides ...fs.FS) (*Texts, error) {
	files, errs := sms.loadSources(builtin, overrides)
	t := &Texts{limits: limits, chooser: &Renderer{}, sets: map[setKey]*texttemplate.Template{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		names := strings.Split(name, "/")
		key := setKey{names[1], names[2]}
		compiled, faults := compileText(name, files[name], key.locale)
		if errs = append(errs, faults...); faults != nil {
			continue
		}
		t.sets[key] = compiled
		if key.purpose == defaultPurpose {
			t.chooser.locales = append(t.chooser.locales, key.locale)
		}
	}
	if !slices.Contains(t.chooser.locales, fallbackLocale) {
		errs = append(errs, fmt.Errorf("%s/%s/%s/%s: missing, every other language falls back to it", textsRoot, defaultPurpose, fallbackLocale,
			textFile))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("message templates:\n%w", errors.Join(unique(errs)...))
	}
	slices.SortStableFunc(t.chooser.locales, func(a, b string) int { return rank(a) - rank(b) })
	t.chooser.matcher = newMatcher(t.chooser.locales)
	return t, nil
}

func compileText(name, content, locale string) (*texttemplate.Template, []error) {
	t, trees, err := parsePlain(name, content)
	if err != nil {
		return nil, []error{err}
	}
	var faults []error
	for _, tree := range trees {
		faults = append(faults, unknownFields(tree)...)
	}
	if faults != nil {
		return nil, faults
	}
	for _, data := range samples {
		out, err := execute(textPart, t, newView(data, true, locale))
		switch {
		case err != nil:
			return nil, []error{err} // names file and line
		case strings.Count(out, sampleCode) != 1:
			faults = append(faults, fmt.Errorf("%s: the code must stand in it once, in one piece", name))
		case hasOriginLine(out):
			faults = append(faults, fmt.Errorf("%s: a line that begins with @ is read as the page's address; sms: origin adds the right one", name))
		}
	}
	return t.(*texttemplate.Template), faults
}

func hasOriginLine(text string) bool {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.HasPrefix(lines[len(lines)-1], "@")
}

// Fit renders all templates with a title, the longest code and the longest life. The error lists those that take too many segments.
func (t *Texts) Fit(title string, codeLength int) error {
	var errs []error
	for key := range t.sets {
		text, err := t.render(key, Data{App: title, Code: strings.Repeat("7", codeLength), Minutes: 10})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if text.Segments > t.limits.Segments {
			errs = append(errs, fmt.Errorf("%s/%s/%s/%s takes %d segments for the app that is called %q, and may take %d: shorten it or the "+
				"title, or raise sms: segments",
				textsRoot, key.purpose, key.locale, textFile, text.Segments, title, t.limits.Segments))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// Locales returns the languages that text messages of an app can have, as BCP 47 tags, English first.
func (t *Texts) Locales(app string) []string { return slices.Clone(t.of(app, t).chooser.locales) }

// Prefer is as with mails; see [Renderer.Prefer].
func (t *Texts) Prefer(app, list string) string { return t.of(app, t).chooser.Prefer("", list) }

// Render renders a text message. The error has neither the code nor any text of the request. It ignores Notify.
func (t *Texts) Render(req Request) (Text, error) {
	t = t.of(req.App, t)
	req.Notify = Glance
	if err := checkRequest(req); err != nil {
		return Text{}, err
	}
	key := setKey{req.Purpose, t.chooser.match(req.Locale)}
	if _, found := t.sets[key]; !found {
		key.purpose = defaultPurpose
	}
	return t.render(key, req.Data)
}

func (t *Texts) render(key setKey, data Data) (Text, error) {
	out, err := execute(textPart, t.sets[key], newView(data, true, key.locale))
	if err != nil {
		return Text{}, fmt.Errorf("message: template %s failed", t.sets[key].Name()) // the reason may quote the code
	}
	out = strings.TrimSpace(out)
	if t.limits.Origin != "" {
		out += "\n@" + t.limits.Origin + " #" + data.Code
	}
	return Text{Text: out, Language: key.locale, Segments: t.limits.Measure(out)}, nil
}
