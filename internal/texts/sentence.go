package texts

import (
	"strings"
	"time"
)

// Sentence is a text with times in it, which a page shows in the zone of its words and everything else in UTC.
type Sentence []Piece

// Piece is a stretch of plain text, or a time.
type Piece struct {
	Text   string
	Strong bool
	At     Clock // zero: plain text
}

// Clock is a time as a page shows it, in its own zone.
type Clock struct {
	time.Time
	Exact bool // with milliseconds
}

// Part is what a sentence's pattern names.
type Part struct {
	name  string
	piece Piece
}

// Plain is a text.
func Plain(name, value string) Part { return Part{name, Piece{Text: value}} }

// Strong is a text that stands out.
func Strong(name, value string) Part { return Part{name, Piece{Text: value, Strong: true}} }

// At is a time.
func At(name string, t time.Time) Part {
	return Part{name, Piece{At: Clock{Time: t}}}
}

// Tell fills a pattern of the words with parts, each of which stands in it as "{name}".
func (w Words) Tell(key string, parts ...Part) Sentence {
	var out Sentence
	rest := w.texts[key]
	for {
		before, after, found := strings.Cut(rest, "{")
		if before != "" {
			out = append(out, Piece{Text: before})
		}
		if !found {
			return out
		}
		var name string
		name, rest, _ = strings.Cut(after, "}")
		for _, p := range parts {
			if p.name == name {
				p.piece.At.Time = w.in(p.piece.At.Time)
				out = append(out, p.piece)
			}
		}
	}
}

// Join joins sentences, with the space that the language puts between them.
func (w Words) Join(sentences ...Sentence) Sentence {
	var out Sentence
	for _, s := range sentences {
		if len(s) == 0 {
			continue
		}
		if len(out) > 0 && w.texts["sentence.space"] != "" {
			out = append(out, Piece{Text: w.texts["sentence.space"]})
		}
		out = append(out, s...)
	}
	return out
}

// String is the sentence with its times in UTC.
func (s Sentence) String() string { return s.write(Clock.String) }

// Local is the sentence with its times in the zone that they have, which is not named.
func (s Sentence) Local() string {
	return s.write(func(c Clock) string { return c.Date() + " " + c.Hour() })
}

func (s Sentence) write(at func(Clock) string) string {
	var b strings.Builder
	for _, p := range s {
		if p.At.IsZero() {
			b.WriteString(p.Text)
		} else {
			b.WriteString(at(p.At))
		}
	}
	return b.String()
}

// String is the time in UTC, with its zone.
func (c Clock) String() string { return c.UTC().Format("2006-01-02 15:04:05 UTC") }

// ISO is the time for programs.
func (c Clock) ISO() string { return c.UTC().Format("2006-01-02T15:04:05.000Z") }

// Date is the day.
func (c Clock) Date() string { return c.Format(time.DateOnly) }

// Hour is the time of the day.
func (c Clock) Hour() string {
	if c.Exact {
		return c.Format("15:04:05.000")
	}
	return c.Format(time.TimeOnly)
}
