package drill

import (
	"math/rand/v2"
	"time"

	"sendcode/internal/demo"
	"sendcode/internal/recipient"
)

// incident is one problem: what happened, and what the caller says of it.
type incident struct {
	kind    *kind
	rand    *rand.Rand
	channel recipient.Channel
	to      string // whose code it is
	app     string
	locale  string

	known map[string]fact // what is true, by the name that it has in the kind's words

	// What the caller tells.
	said   string        // typed into the search: address, number or reference
	refers bool          // said is a reference
	ago    time.Duration // when it was, roughly; 0: just now, or they do not say

	erased  bool
	support string // reference of the send that the caller speaks of; empty: there is none
}

// fact is a word, or a time between two bounds.
type fact struct {
	word     string
	from, to time.Time
}

// clockRoom is how far two clocks and their rounding may be apart.
const clockRoom = 2 * time.Second

func (i *incident) knows(name string, at time.Time) { i.known[name] = fact{from: at, to: at} }

func (i *incident) knowsWord(name, word string) { i.known[name] = fact{word: word} }

// happened notes a time between from and now.
func (i *incident) happened(name string, from time.Time) {
	i.known[name] = fact{from: from, to: time.Now()}
}

// barred notes a suppression of 30 days that began between from and now.
func (i *incident) barred(from time.Time) {
	const days = 30 * 24 * time.Hour
	i.known["barred"] = fact{from: from.Add(days), to: time.Now().Add(days)}
}

// moved shifts every time that is known.
func (i *incident) moved(by time.Duration) {
	for name, f := range i.known {
		if f.word == "" {
			i.known[name] = fact{from: f.from.Add(by), to: f.to.Add(by)}
		}
	}
}

// newIncident invents a person.
func newIncident(k *kind, seed *rand.Rand, n int) *incident {
	r := rand.New(rand.NewPCG(seed.Uint64(), seed.Uint64()))
	i := &incident{kind: k, rand: r, app: pick(r, apps...), known: map[string]fact{}}
	var countries []string
	if k.sms {
		countries = []string{"DE"}
	}
	who := demo.InventRecipient(r, n, countries...)
	i.channel, i.to, i.locale = who.Channel, who.To, who.Locale
	i.knowsWord("app", i.app)
	return i
}

// masked returns the recipient as the console shows it; an erased one is hidden.
func (i *incident) masked() string {
	r, err := recipient.Parse(i.channel, i.to)
	if err != nil || i.erased {
		return "•••"
	}
	return r.Masked()
}

// speaks decides how the caller says who they are: by the reference in one case of three, where
// they have one.
func (i *incident) speaks() {
	i.said = i.to
	if i.kind.byReference || i.support != "" && !i.kind.byAddress && i.rand.IntN(3) == 0 {
		i.refers, i.said = true, i.support
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
