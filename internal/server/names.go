package server

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// nameTwice is duplicateName, which costs more than decoding the body: nearly all bodies have one object of a few plain names.
func nameTwice(body []byte) (name string, position int64, found bool) {
	if plainNames(body) {
		return "", 0, false
	}
	return duplicateName(body)
}

// maxPlainNames is how many names are compared each with each.
const maxPlainNames = 16

// plainNames holds for one object without others in it, whose names are ASCII without escapes and differ. The body is valid JSON.
func plainNames(body []byte) bool {
	var names [maxPlainNames][]byte
	n := 0
	body, object := bytes.CutPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'{'})
	if !object {
		return false
	}
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			return false
		case '"':
			text := body[i+1 : endOfText(body, i+1)]
			i += len(text) + 1
			if rest := bytes.TrimLeft(body[i+1:], " \t\r\n"); len(rest) == 0 || rest[0] != ':' {
				continue // a value
			}
			same := func(other []byte) bool { return bytes.EqualFold(other, text) }
			if n == maxPlainNames || !plainName(text) || slices.ContainsFunc(names[:n], same) {
				return false
			}
			names[n] = text
			n++
		}
	}
	return true
}

// endOfText is where the closing quote of a text stands that begins here.
func endOfText(body []byte, i int) int {
	for i < len(body) && body[i] != '"' {
		if body[i] == '\\' {
			i++
		}
		i++
	}
	return min(i, len(body))
}

func plainName(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return r == '\\' || r >= utf8.RuneSelf })
}

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
