package message

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// An inbox or a notification may show this many characters of one part of a mail: htmlPreviewLength
// of the HTML part, and previewLength of any other part. A wide character counts as two. The number
// for the HTML part is larger because of Exchange, which sends the first 256 characters of the
// displayed part to phones. If a mail has an HTML part, that is the displayed part. Words that the
// HTML part hides count, because inboxes show them (docs/decisions/0034-the-code-on-top.md).
const (
	previewLength     = 120
	htmlPreviewLength = 256
)

// SampleCode is the code of all samples. A template may show the code in two groups, so checks also
// search for each half of the code. The fixed text of a template must contain neither SampleCode
// nor one of its halves, because a check would mistake it for the code.
const SampleCode = "739154"

// HideSampleCode returns a message with dots in place of SampleCode, also where a template shows it
// in two groups.
func HideSampleCode(text string) string {
	const dots = "•••"
	half := len(SampleCode) / 2
	return strings.NewReplacer(SampleCode, dots+" "+dots, SampleCode[:half], dots, SampleCode[half:], dots).Replace(text)
}

// sampleData has the shortest values of Data, and long values of all its fields, so that templates
// execute both branches of conditions. The shortest values leave the least text before the code.
// With them, a check finds a code that a preview would show.
var sampleData = []Data{
	{App: "A", Code: SampleCode, Minutes: 1},
	{App: "A", Code: SampleCode},
	{App: "A", Code: SampleCode, Minutes: 120, Home: "https://a.example/"},
	{App: "A", Code: SampleCode, Home: "https://a.example/"},
	{
		App: strings.Repeat("Wide App ", 7), Code: SampleCode, Minutes: 1440, Purpose: strings.Repeat("Purpose ", 8), Details: "Pay 40.00 EUR",
		Requested: "14:05 UTC", Support: "S-Q2HK", Hash: "FA+9qCX9VSu",
		NotMe: "https://shop.example/not-me/a", Home: "https://shop.example/", Accent: "#1f5fd1", DarkAccent: "#8ab4ff",
	},
}

// trySamples renders all samples with the templates and returns all faults: template errors, and
// texts that break a rule.
func (k messageKind) trySamples(s templateSet, locale string) []error {
	errs := k.checkNoZeroMinutes(s, locale)
	for _, data := range sampleData {
		for _, glance := range k.glance {
			for part, t := range s {
				if t == nil {
					continue
				}
				out, err := renderPart(part, t, newTemplateData(data, glance, locale))
				if err != nil {
					errs = append(errs, err) // names file and line
					continue
				}
				for _, fault := range k.faults(part, out, glance) {
					errs = append(errs, fmt.Errorf("%s: %w", t.Name(), fault))
				}
			}
		}
	}
	return errs
}

// checkNoZeroMinutes returns an error for each template that says "0 minutes" if the code's life is
// not known.
func (k messageKind) checkNoZeroMinutes(s templateSet, locale string) (errs []error) {
	for _, glance := range k.glance {
		for part, t := range s {
			if t == nil {
				continue
			}
			known, err := renderPart(part, t, newTemplateData(sampleData[0], glance, locale))
			unknown, err2 := renderPart(part, t, newTemplateData(sampleData[1], glance, locale))
			if err == nil && err2 == nil && strings.Count(unknown, "0") > strings.Count(known, "0") {
				errs = append(errs, fmt.Errorf(
					"%s: it says 0 minutes if the code's life is not known: write that sentence under {{if .Minutes}}",
					t.Name()))
			}
		}
	}
	return errs
}

func mailFaults(part int, out string, codeInPreview bool) (faults []error) {
	switch part {
	case subjectPart:
		faults = append(faults, checkSubject(out))
	case textPart:
		faults = append(faults, checkCodeOnOwnLine(out))
	case htmlPart:
		faults = append(faults, checkCodeOnOwnLine(htmlText(out, false)))
	}
	switch {
	case codeInPreview:
	case part == htmlPart:
		faults = append(faults, checkPreviewHidesCode(htmlText(out, true), htmlPreviewLength))
	default:
		faults = append(faults, checkPreviewHidesCode(out, previewLength))
	}
	return slices.DeleteFunc(faults, func(err error) bool { return err == nil })
}

func textFaults(_ int, out string, _ bool) []error {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	switch {
	case strings.Count(out, SampleCode) != 1:
		return []error{errors.New("the code must appear in it once, in one piece")}
	case strings.HasPrefix(lines[len(lines)-1], "@"):
		return []error{errors.New(
			"a line that begins with @ is read as the page's address; the service adds the right one")}
	}
	return nil
}

func checkSubject(subject string) error {
	if subject == "" {
		return errors.New("the subject is empty")
	}
	for i, r := range []rune(subject) {
		if unicode.IsControl(r) {
			return fmt.Errorf("the subject has %U (character %d), a control character", r, i+1)
		}
	}
	return nil
}

func checkCodeOnOwnLine(text string) error {
	if !slices.Contains(strings.Split(text, "\n"), SampleCode) {
		return errors.New("the code is not alone on a line, in one piece")
	}
	return nil
}

// checkPreviewHidesCode returns an error if the preview contains the first or the second half of
// the code. By searching for halves, checkPreviewHidesCode also finds a code that is shown in
// groups.
func checkPreviewHidesCode(text string, length int) error {
	const half = len(SampleCode) / 2
	beginning := strings.Map(func(r rune) rune {
		if notLetterOrDigit(r) {
			return -1
		}
		return r
	}, inboxPreview(text, length+half-1)) // a half that begins within the preview ends here
	if strings.Contains(beginning, SampleCode[:half]) || strings.Contains(beginning, SampleCode[half:]) {
		return fmt.Errorf(
			"notify private: the code stands in the subject or within the first %d characters; write it under {{if .Glance}}, "+
				"or further down", length)
	}
	return nil
}

// inboxPreview returns the first columns of a text, as an inbox shows them. inboxPreview removes
// invisible characters and replaces each run of white space by one space. A wide character takes
// two columns.
func inboxPreview(text string, columns int) string {
	visible := strings.Map(func(r rune) rune {
		if isInvisible(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	visible = strings.Join(strings.Fields(visible), " ")
	for i, r := range visible {
		if columns <= 0 {
			return visible[:i]
		}
		columns--
		if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
			columns--
		}
	}
	return visible
}
