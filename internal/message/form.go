package message

import "strings"

// marks stand for the characters of a code and of the support reference, which differ from mail to mail, each for one
// place. No template holds them, no escaping changes them in text, and none of them is white space.
const marks = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"

// maxForms bounds the cache of forms: there is one for each combination of purpose, locale, app and minutes.
const maxForms = 512

// formKey is everything that a message depends on except the characters of the code and the reference.
type formKey struct {
	set    setKey
	glance bool
	data   Data // Code and Support are marks of their lengths
}

// Form is a message with marks. Mails of one kind differ in the code and the reference only; filling these into a form takes a small part
// of the time of the templates. It is immutable and holds no code.
type Form struct {
	marked Message
	blanks [partCount][]blank
}

// blank is where one character is filled in.
type blank struct{ at, character int }

func keyOf(set setKey, d Data, glance bool) formKey {
	k := formKey{set: set, glance: glance, data: d}
	k.data.Code = marks[:len(d.Code)]
	if fillable(d) {
		k.data.Support = marks[len(d.Code) : len(d.Code)+len(d.Support)]
	}
	return k
}

// fillable reports whether the reference can be filled into a form like the code: no escaping changes its characters, and there are enough
// marks. Another reference gets its own form.
func fillable(d Data) bool {
	return len(d.Code)+len(d.Support) <= len(marks) && !strings.ContainsFunc(d.Support, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// filling returns the characters that replace the marks: the code and the reference.
func filling(d Data) string {
	if fillable(d) {
		return d.Code + d.Support
	}
	return d.Code
}

// newForm returns the form of a message that was rendered with marks; nil if filling it in does not give the message rendered with a real
// code and reference: a template may put them where escaping changes marks, such as a URL or a script.
func newForm(marked, real Message, filled string) *Form {
	f := &Form{marked: marked, blanks: [partCount][]blank{
		subjectPart: blanksOf(marked.Subject, filled), textPart: blanksOf(marked.Text, filled), htmlPart: blanksOf(marked.HTML, filled),
	}}
	if f.fill(filled) != real {
		return nil
	}
	return f
}

func blanksOf(text, filled string) (blanks []blank) {
	for at := range len(text) {
		if character := strings.IndexByte(marks[:len(filled)], text[at]); character >= 0 {
			blanks = append(blanks, blank{at, character})
		}
	}
	return blanks
}

func (f *Form) fill(filled string) Message {
	out := f.marked
	out.Subject, out.Text, out.HTML = f.Texts(filled)
	return out
}

// Texts returns the parts of the mail with these characters, which are as many as the Fill of the form's other mails.
func (f *Form) Texts(filled string) (subject, text, html string) {
	return fillIn(f.marked.Subject, f.blanks[subjectPart], filled),
		fillIn(f.marked.Text, f.blanks[textPart], filled),
		fillIn(f.marked.HTML, f.blanks[htmlPart], filled)
}

func fillIn(text string, blanks []blank, filled string) string {
	if len(blanks) == 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	from := 0
	for _, blank := range blanks {
		b.WriteString(text[from:blank.at])
		b.WriteByte(filled[blank.character])
		from = blank.at + 1
	}
	b.WriteString(text[from:])
	return b.String()
}
