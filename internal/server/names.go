package server

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// duplicateName finds the first name that an object of the body has twice, and the byte behind it. encoding/json ignores the case
// of names and keeps the last value, so `to` and `TO` would be one field, while a proxy or a log may read the other value. The
// body is valid JSON.
func duplicateName(body []byte) (name string, position int64, found bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var open []map[string]bool // names of the objects that have begun; nil stands for an array
	atName := false            // whether a name comes next, not a value
	for {
		token, err := d.Token()
		if err != nil {
			return "", 0, false
		}
		inObject := len(open) > 0 && open[len(open)-1] != nil
		switch text, isText := token.(string); {
		case token == json.Delim('{'):
			open, atName = append(open, map[string]bool{}), true
			continue
		case token == json.Delim('['):
			open, atName = append(open, nil), false
			continue
		case token == json.Delim('}'), token == json.Delim(']'):
			open = open[:len(open)-1]
			inObject = len(open) > 0 && open[len(open)-1] != nil
		case inObject && atName && isText:
			names, folded := open[len(open)-1], foldName(text)
			if names[folded] {
				return text, d.InputOffset(), true
			}
			names[folded], atName = true, false
			continue
		}
		atName = inObject // a value has ended
	}
}

// foldName is the same for all names that encoding/json takes for one: it compares by Unicode's simple folding.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}
