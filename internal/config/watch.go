package config

import (
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"
)

// SMSWatch is when text messages to a prefix rest because hardly any of their codes is entered.
type SMSWatch struct {
	Off      bool
	Sends    int           // from which on a share says something
	Approved int           // of a hundred, below which the prefix is paused
	Within   time.Duration // over which it is counted
	Pause    time.Duration // for how long; one after another doubles it, up to a day
	Exempt   []string      // prefixes that are never paused, "+49" or "+49151"
}

// The bounds of a watch.
const (
	minWatched, maxWatched = 5, 100_000
	maxApproved            = 50
	minWithin, maxWithin   = 10 * time.Minute, 24 * time.Hour
	minPause, maxPause     = time.Minute, 24 * time.Hour
)

func defaultWatch() SMSWatch {
	return SMSWatch{Sends: 20, Approved: 10, Within: time.Hour, Pause: time.Hour}
}

// exemptPattern: no prefix that is watched shows more than a calling code and three digits.
var exemptPattern = regexp.MustCompile(`^\+[1-9][0-9]{0,5}$`)

func (s *sections) watch(n *yaml.Node, path string) {
	w := &s.config.SMS.Watch
	if n.Kind == yaml.ScalarNode {
		text, ok := s.text(n, path)
		if w.Off = text == "off"; ok && !w.Off {
			s.mistake(n, path, "must be off, or say what is watched, as in {sends: 20, approved: 10}")
		}
		return
	}
	count := func(into *int, least, most int) reader {
		return func(v *yaml.Node, path string) {
			i, ok := s.integer(v, path)
			if *into = i; ok && (i < least || i > most) {
				s.mistake(v, path, "must be from %d to %d", least, most)
			}
		}
	}
	span := func(into *time.Duration, least, most time.Duration) reader {
		return func(v *yaml.Node, path string) {
			d, ok := s.duration(v, path)
			if *into = d; ok && (d < least || d > most) {
				s.mistake(v, path, "must be from %s to %s", short(least), short(most))
			}
		}
	}
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"sends": count(&w.Sends, minWatched, maxWatched), "approved": count(&w.Approved, 1, maxApproved),
		"within": span(&w.Within, minWithin, maxWithin), "pause": span(&w.Pause, minPause, maxPause),
		"exempt": func(v *yaml.Node, path string) {
			s.items(v, path, func(v *yaml.Node, path string) {
				text, ok := s.text(v, path)
				if ok && !exemptPattern.MatchString(text) {
					s.mistake(v, path, "must be the beginning of numbers with its plus, of six digits at most, as in \"+49151\"")
				}
				w.Exempt = append(w.Exempt, text)
			})
		},
	})
}

func (w SMSWatch) node() *yaml.Node {
	if w.Off {
		return text("off")
	}
	return flow(mapping("sends", number(w.Sends), "approved", number(w.Approved), "within", text(short(w.Within)), "pause", text(short(w.Pause)),
		"exempt", flow(texts(w.Exempt))))
}
