package store

import (
	"iter"
	"slices"
)

// Labels are texts that a caller gives a request, so that its sends are found by them. A label has
// one name in requests, answers, columns, filters and the export.
type Labels struct {
	Reference string `json:"reference,omitempty"`
}

// LabelColumns returns the columns of the labels, in the tables sends and verifications.
func (l *Labels) LabelColumns() []Column {
	return []Column{{"reference", &l.Reference, InsertedByBegin | PersonalColumn}}
}

// All returns the name and the text of each label.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(name, text string) bool) {
		for _, c := range l.LabelColumns() {
			if !yield(c.Name, *c.Field.(*string)) {
				return
			}
		}
	}
}

// Or returns the labels with those of other in place of empty ones.
func (l Labels) Or(other Labels) Labels {
	others := other.LabelColumns()
	for i, c := range l.LabelColumns() {
		if text := c.Field.(*string); *text == "" {
			*text = *others[i].Field.(*string)
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

// match reports whether a row has all labels of the filter l that are not empty.
func (l Labels) match(row Labels) bool { return l.Or(row) == row }

// validColumns reports whether every database can store the texts of these columns.
func validColumns(columns []Column) bool {
	return !slices.ContainsFunc(columns, func(c Column) bool {
		text, ok := c.Field.(*string)
		return ok && !AreValidTexts(*text)
	})
}
