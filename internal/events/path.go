package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Path leads to a value: names of members and places in lists, as "event-data.message.headers.message-id" or "data.to.0".
type Path []string

// ParsePath reads a path.
func ParsePath(text string) (Path, error) {
	parts := strings.Split(text, ".")
	for _, p := range parts {
		if p == "" || len(p) > 64 || len(parts) > maxDepth {
			return nil, fmt.Errorf("is no path such as data.to.0")
		}
	}
	return parts, nil
}

// String is what ParsePath reads.
func (p Path) String() string { return strings.Join(p, ".") }

// UnmarshalText is ParsePath.
func (p *Path) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePath(string(text))
	return err
}

// MarshalText is String.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// find follows the path; nil where it leads nowhere.
func (p Path) find(value any) any {
	for _, step := range p {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// text is a value as text: of a list the first; nothing of what is no single value.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	case []any:
		if len(v) > 0 {
			if _, nested := v[0].([]any); !nested {
				return text(v[0])
			}
		}
	}
	return ""
}

// first is the first text that one of the paths leads to.
func first(value any, paths []Path) string {
	for _, p := range paths {
		if s := text(p.find(value)); s != "" {
			return s
		}
	}
	return ""
}

// decode reads one JSON value and nothing after it. Numbers stay as they were written.
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

// deep says that more is nested than any event is: it would only cost memory. Brackets in texts do not count.
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
