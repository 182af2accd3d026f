package store

import (
	"iter"
)

// Labels are texts by which the caller finds its sends. A label has the same name in requests,
// answers, columns, filters and the export.
type Labels struct {
	Reference string `json:"reference,omitempty"`
}

type label struct {
	name string
	text *string
}

// fields returns an array, so that nothing is allocated.
func (l *Labels) fields() [1]label { return [...]label{{"reference", &l.Reference}} }

// LabelColumns returns columns of the tables sends and verifications.
func (l *Labels) LabelColumns() []Column { return l.withColumns(nil) }

// withColumns returns own, then the labels' columns. It allocates once.
func (l *Labels) withColumns(own []Column) []Column {
	all := append(make([]Column, 0, len(own)+len(l.fields())), own...)
	for _, f := range l.fields() {
		all = append(all, Column{f.name, f.text, InsertedByBegin | PersonalColumn | ExportedColumn})
	}
	return all
}

// All yields the name and the text of each label.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(name, text string) bool) {
		for _, f := range l.fields() {
			if !yield(f.name, *f.text) {
				return
			}
		}
	}
}

func (l Labels) valid() bool {
	for _, text := range l.All() {
		if !AreValidTexts(text) {
			return false
		}
	}
	return true
}

// Or returns l with the labels of other where l's are empty.
func (l Labels) Or(other Labels) Labels {
	others := other.fields()
	for i, f := range l.fields() {
		if *f.text == "" {
			*f.text = *others[i].text
		}
	}
	return l
}

func LabelNames() (names []string) {
	for name := range (Labels{}).All() {
		names = append(names, name)
	}
	return names
}
