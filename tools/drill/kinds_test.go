package drill

import (
	"slices"
	"strings"
)

// kind is a reason why a code does not come or does not work.
type kind struct {
	name string
	sms  bool
	// live ones are made just before the caller calls, since they are over soon.
	live bool
	// old ones may have happened a while ago, and of some kinds the same person may have got
	// another code since.
	old, others bool
	// Some callers have to tell what they have: the reference of a mail, or the address.
	byReference, byAddress bool

	before func(*environment, *incident) // what the world around is like, said before anything is sent
	make   func(*environment, *incident)
	settle func(*environment, *incident) // waits for what takes its time
	down   bool                          // the mail server is, while it is made and settles

	// What has to be said, in any order, of what happened and of what to do; {names} are facts of
	// the incident. never is what would lead the caller astray.
	what, next []string
	never      []string
	reply      map[bool][]string // by whether it is in Chinese; else it is in English
}

// kinds are all of them. Their right verdicts differ, which the drill sees for itself.
var kinds = slices.Concat(arrived, refusedByUs, refusedByThem, stopped, gone)

// words are the phrases of one table entry.
func words(lines string) []string {
	var all []string
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// said are the phrases of a reply, in English and in Chinese.
func said(english, chinese string) map[bool][]string {
	return map[bool][]string{false: words(english), true: words(chinese)}
}
