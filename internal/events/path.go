package events

import (
	"bytes"
	"encoding/json"
	"sendcode/internal/jsonpath"
)

// Path leads to a value.
type Path = jsonpath.Path

// text returns a value as text, and of a list its first element; "" if it is no single value.
func text(value any) string {
	if list, ok := value.([]any); ok && len(list) > 0 {
		if _, nested := list[0].([]any); !nested {
			return text(list[0])
		}
	}
	single, _ := jsonpath.Text(value)
	return single
}

// first is the first text that one of the paths leads to.
func first(value any, paths []Path) string {
	for _, p := range paths {
		if s := text(p.Find(value)); s != "" {
			return s
		}
	}
	return ""
}

// decode decodes one JSON value and fails if anything follows it. Numbers stay as they were written.
func decode(body []byte) (any, error) {
	if len(body) > MaxBody || deep(body) {
		return nil, ErrMalformed
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil || d.More() {
		return nil, ErrMalformed
	}
	return value, nil
}

// deep reports whether JSON is nested deeper than any event is, which would only cost memory. Brackets in texts do not count.
func deep(body []byte) bool {
	depth, quoted, escaped := 0, false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
