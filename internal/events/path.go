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
	if len(body) > MaxBody {
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
