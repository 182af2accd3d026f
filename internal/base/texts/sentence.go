package texts

import (
	"strings"
	"time"
)

// Sentence is a text that may contain times. A page shows the times in the time zone of the Words
// that made the Sentence. String writes them in UTC.
type Sentence []sentencePiece

type sentencePiece struct {
	Text   string
	Strong bool
	At     DisplayTime // zero: plain text
	Day    DisplayDay  // the form in which a page shows At; zero: to the second

	now time.Time // Words.Sentence computes Day from it; zero: no Day
}

// DisplayTime is a time in the time zone in which a page shows it.
type DisplayTime struct {
	time.Time
	Exact bool // with milliseconds
}

type Substitution struct {
	name  string
	piece sentencePiece
}

// Plain substitutes a text.
func Plain(name, value string) Substitution { return Substitution{name, sentencePiece{Text: value}} }

// Strong substitutes an emphasized text.
func Strong(name, value string) Substitution {
	return Substitution{name, sentencePiece{Text: value, Strong: true}}
}

// AtTime substitutes a time.
func AtTime(name string, t time.Time) Substitution {
	return Substitution{name, sentencePiece{At: DisplayTime{Time: t}}}
}

// AtDay substitutes a time that a page shows as [Words.NearDay] does. A reader can ask for the
// exact time.
func AtDay(name string, t, now time.Time) Substitution {
	return Substitution{name, sentencePiece{At: DisplayTime{Time: t}, now: now}}
}

// Sentence returns the console's text for a key. Each "{name}" is replaced by the substitution with
// this name, or by nothing if there is none.
func (w Words) Sentence(key string, parts ...Substitution) Sentence {
	var out Sentence
	rest := w.texts[key]
	for {
		before, after, found := strings.Cut(rest, "{")
		if before != "" {
			out = append(out, sentencePiece{Text: before})
		}
		if !found {
			return out
		}
		var name string
		name, rest, _ = strings.Cut(after, "}")
		for _, p := range parts {
			if p.name == name {
				if !p.piece.now.IsZero() && !p.piece.At.IsZero() {
					p.piece.Day = w.NearDay(p.piece.At.Time, p.piece.now)
				}
				p.piece.At.Time = w.inZone(p.piece.At.Time)
				out = append(out, p.piece)
			}
		}
	}
}

// Join joins sentences with the language's space between sentences, and skips empty ones.
func (w Words) Join(sentences ...Sentence) Sentence {
	var out Sentence
	for _, s := range sentences {
		if len(s) == 0 {
			continue
		}
		if len(out) > 0 && w.texts["sentence.space"] != "" {
			out = append(out, sentencePiece{Text: w.texts["sentence.space"]})
		}
		out = append(out, s...)
	}
	return out
}

// String writes times in UTC.
func (s Sentence) String() string { return s.write(DisplayTime.String) }

// Local writes times in the time zone of the Words that made the sentence, without the zone's name.
func (s Sentence) Local() string {
	return s.write(func(c DisplayTime) string { return c.Date() + " " + c.TimeOfDay() })
}

func (s Sentence) write(at func(DisplayTime) string) string {
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

// String writes UTC: 2026-01-02 15:04:05 UTC.
func (d DisplayTime) String() string { return d.UTC().Format("2006-01-02 15:04:05 UTC") }

// ISO writes UTC to the millisecond, as in ISO 8601.
func (d DisplayTime) ISO() string { return d.UTC().Format("2006-01-02T15:04:05.000Z") }

// Date returns a text such as "2026-01-02", in the time's zone.
func (d DisplayTime) Date() string { return d.Format(time.DateOnly) }

// TimeOfDay returns a text such as "15:04:05", in the time's zone, with milliseconds if Exact.
func (d DisplayTime) TimeOfDay() string {
	if d.Exact {
		return d.Format("15:04:05.000")
	}
	return d.Format(time.TimeOnly)
}
