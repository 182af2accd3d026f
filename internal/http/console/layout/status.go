package layout

import (
	"slices"
	"strconv"
	"time"

	"sendcode/internal/base/texts"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
)

// ServiceStatus is the state of the service, as /readyz reports it, and the number of waiting
// sends.
type ServiceStatus struct {
	Reasons  []server.HealthReason // why parts do not work, or are slow
	Parts    []ServicePart
	UnderWay store.Backlog // sends without an outcome, of all channels
	Counted  bool          // UnderWay is known
	Now      time.Time
}

// ServicePart is a part of the system that the service needs.
type ServicePart struct {
	Kind string // database, redis, mail or sms
	Name string // host:port of a mail server, or the name of a carrier
	// Up reports whether the part works. A mail server or carrier works if its circuit breaker is
	// closed. An open circuit breaker admits one attempt every five seconds.
	Up    bool
	Slow  bool // the part answers, but late
	Since time.Time
	Why   string // the part's last fault
}

// statusLine is the state of the service, as a page shows it.
type statusLine struct {
	W        texts.Words
	Parts    []servicePartView
	UnderWay string
	Troubles []texts.Sentence
	Well     bool // all parts are up, no check fails, and UnderWay is known
}

// servicePartView is a part of the service with its name in words.
type servicePartView struct {
	Name  string
	State string // up, slow, away or suspended
}

// state returns the state of the part in the words of /readyz and the alerts.
func (p ServicePart) state() string {
	switch {
	case p.Up && p.Slow:
		return "slow"
	case p.Up:
		return "up"
	case p.Kind == "mail" || p.Kind == "sms":
		return "suspended"
	}
	return "away"
}

func (l *statusLine) fill(s ServiceStatus) {
	for _, r := range s.Reasons {
		l.Troubles = append(l.Troubles,
			l.W.Sentence("health.since", texts.Plain("text", r.Text(l.W)), texts.AtTime("since", r.Since)))
	}
	for _, p := range s.Parts {
		l.Parts = append(l.Parts, servicePartView{l.W.Get("health.part."+p.Kind, "name", p.Name), p.state()})
		if p.state() != "suspended" {
			continue
		}
		sentence := l.W.Sentence("health.suspended."+p.Kind, texts.Strong("server", p.Name), texts.Plain("why", p.Why),
			texts.Plain("for", l.W.Wait(s.Now.Sub(p.Since))))
		if slices.ContainsFunc(s.Parts, func(other ServicePart) bool { return other.Kind == p.Kind && other.Up }) {
			sentence = append(append(sentence, l.W.Sentence("sentence.space")...), l.W.Sentence("health.next."+p.Kind)...)
		}
		l.Troubles = append(l.Troubles, sentence)
	}
	l.Well = s.Counted && len(s.Reasons) == 0 && !slices.ContainsFunc(s.Parts, func(p ServicePart) bool { return p.state() != "up" })
	switch {
	case !s.Counted:
		l.UnderWay = l.W.Get("health.unknown")
	case s.UnderWay.Sends == 0:
		l.UnderWay = l.W.Get("health.none")
	default:
		l.UnderWay = l.W.Get(texts.PluralKey("health.under_way", s.UnderWay.Sends), "n", strconv.Itoa(s.UnderWay.Sends),
			"age", l.W.Wait(s.UnderWay.Age.Truncate(time.Second)))
	}
}
