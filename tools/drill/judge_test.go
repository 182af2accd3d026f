package drill

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// blank is a fact's place in a phrase.
var blank = regexp.MustCompile(`\{(\w+)\}`)

// wrong returns what is missing from a verdict or must not be in it; "" if it is right.
func (k *kind) wrong(h heard, known map[string]fact) string {
	var faults []string
	for _, half := range []struct {
		name, text string
		phrases    []string
	}{{"verdict", h.What, k.what}, {"next step", h.Next, k.next}, {"reply", h.Reply, k.reply[h.chinese]}} {
		for _, p := range half.phrases {
			if fault := missing(p, half.text, known); fault != "" {
				faults = append(faults, half.name+" lacks "+fault)
			}
		}
	}
	for _, p := range k.never {
		if strings.Contains(h.What+" "+h.Next, p) {
			faults = append(faults, fmt.Sprintf("it says %q", p))
		}
	}
	most := maxActions
	if h.shared {
		most++
	}
	if h.actions > most {
		faults = append(faults, fmt.Sprintf("it took %d actions", h.actions))
	}
	return strings.Join(faults, "; ")
}

// missing returns why a phrase, with the facts in its blanks, is not in a text; "" if it is.
func missing(phrase, text string, known map[string]fact) string {
	pattern, last := "", 0
	var times []fact
	for _, at := range blank.FindAllStringSubmatchIndex(phrase, -1) {
		f, ok := known[phrase[at[2]:at[3]]]
		if !ok {
			return fmt.Sprintf("%q, of which nothing is known", phrase)
		}
		pattern += regexp.QuoteMeta(phrase[last:at[0]])
		if last = at[1]; f.word != "" {
			pattern += regexp.QuoteMeta(f.word)
			continue
		}
		pattern += "⟨([^⟩]+)⟩"
		times = append(times, f)
	}
	compiled := regexp.MustCompile(pattern + regexp.QuoteMeta(phrase[last:]))
	for _, found := range compiled.FindAllStringSubmatch(text, -1) {
		if agree(found[1:], times) {
			return ""
		}
	}
	for _, f := range times {
		phrase += fmt.Sprintf(" [%s]", f.from.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%q", phrase)
}

func agree(said []string, times []fact) bool {
	for n, f := range times {
		at, err := time.Parse(time.RFC3339, said[n])
		if err != nil || at.Before(f.from.Add(-clockRoom)) || at.After(f.to.Add(clockRoom)) {
			return false
		}
	}
	return true
}
