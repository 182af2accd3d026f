package admin

import (
	"strings"
	"time"
)

// sentence is a text with times in it, which a page shows in the reader's zone and everything else in UTC.
type sentence []piece

// piece is a stretch of plain text, or a time.
type piece struct {
	Text   string
	Strong bool
	At     clock // zero: plain text
}

// clock is a time as a page shows it.
type clock struct {
	time.Time
	Exact bool // with milliseconds
}

// part is what a sentence's pattern names.
type part struct {
	name  string
	piece piece
}

func plain(name, value string) part  { return part{name, piece{Text: value}} }
func strong(name, value string) part { return part{name, piece{Text: value, Strong: true}} }
func at(name string, t time.Time) part {
	return part{name, piece{At: clock{Time: t}}}
}

// tell fills a pattern of the words with parts, each of which stands in it as "{name}".
func (w words) tell(key string, parts ...part) sentence {
	var out sentence
	rest := w.texts[key]
	for {
		before, after, found := strings.Cut(rest, "{")
		if before != "" {
			out = append(out, piece{Text: before})
		}
		if !found {
			return out
		}
		var name string
		name, rest, _ = strings.Cut(after, "}")
		for _, p := range parts {
			if p.name == name {
				out = append(out, p.piece)
			}
		}
	}
}

// and joins sentences, with the space that the language puts between them.
func (w words) and(sentences ...sentence) sentence {
	var out sentence
	for _, s := range sentences {
		if len(s) == 0 {
			continue
		}
		if len(out) > 0 && w.texts["sentence.space"] != "" {
			out = append(out, piece{Text: w.texts["sentence.space"]})
		}
		out = append(out, s...)
	}
	return out
}

// String is the sentence with its times in UTC.
func (s sentence) String() string {
	var b strings.Builder
	for _, p := range s {
		if p.At.IsZero() {
			b.WriteString(p.Text)
		} else {
			b.WriteString(p.At.String())
		}
	}
	return b.String()
}

// String is the time in UTC, with its zone.
func (c clock) String() string { return c.UTC().Format("2006-01-02 15:04:05 UTC") }

// ISO is what a browser needs to show it in the reader's zone.
func (c clock) ISO() string { return c.UTC().Format("2006-01-02T15:04:05.000Z") }

// Date is the day in UTC.
func (c clock) Date() string { return c.UTC().Format("2006-01-02") }

// Hour is the time of the day in UTC.
func (c clock) Hour() string {
	if c.Exact {
		return c.UTC().Format("15:04:05.000")
	}
	return c.UTC().Format("15:04:05")
}
