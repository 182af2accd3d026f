package store

import (
	"iter"
)

// Labels are texts that a caller adds to a request, so that the sends of the request can be found
// by them. A label has the same name in requests, answers, columns, filters and the export.
type Labels struct {
	Reference string `json:"reference,omitempty"`
}

// label is the name of a label and a pointer to its text.
type label struct {
	name string
	text *string
}

// fields returns all labels, as an array, so that nothing is allocated.
func (l *Labels) fields() [1]label { return [...]label{{"reference", &l.Reference}} }

// LabelColumns returns the columns of the labels, in the tables sends and verifications.
func (l *Labels) LabelColumns() []Column { return l.withColumns(nil) }

// withColumns returns the columns in own, followed by the columns of the labels. It allocates
// memory only once.
func (l *Labels) withColumns(own []Column) []Column {
	all := append(make([]Column, 0, len(own)+len(l.fields())), own...)
	for _, f := range l.fields() {
		all = append(all, Column{f.name, f.text, InsertedByBegin | PersonalColumn | ExportedColumn})
	}
	return all
}

// All returns the name and the text of each label.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(name, text string) bool) {
		for _, f := range l.fields() {
			if !yield(f.name, *f.text) {
				return
			}
		}
	}
}

// valid reports whether every database can store the labels.
func (l Labels) valid() bool {
	for _, text := range l.All() {
		if !AreValidTexts(text) {
			return false
		}
	}
	return true
}

// Or returns l, in which each empty label is replaced by the same label of other.
func (l Labels) Or(other Labels) Labels {
	others := other.fields()
	for i, f := range l.fields() {
		if *f.text == "" {
			*f.text = *others[i].text
		}
	}
	return l
}

// LabelNames returns the names of all labels.
func LabelNames() (names []string) {
	for name := range (Labels{}).All() {
		names = append(names, name)
	}
	return names
}
