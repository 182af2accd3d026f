package providerhttp

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// JSONPath is the member names and list indexes that lead to a value in JSON from another service,
// such as "event-data.message.headers.message-id" or "data.to.0".
type JSONPath []string

// These are bounds of a path: its steps, and the bytes of one step.
const (
	maxSteps      = 32
	maxStepLength = 64
)

// ParseJSONPath parses a path. The error's text continues a sentence about the setting.
func ParseJSONPath(text string) (JSONPath, error) {
	parts := strings.Split(text, ".")
	for _, p := range parts {
		if p == "" || len(p) > maxStepLength || len(parts) > maxSteps {
			return nil, errors.New("is not a path such as data.to.0")
		}
	}
	return parts, nil
}

// String returns the text that ParseJSONPath reads.
func (p JSONPath) String() string { return strings.Join(p, ".") }

// UnmarshalText parses the text as ParseJSONPath does.
func (p *JSONPath) UnmarshalText(text []byte) (err error) {
	*p, err = ParseJSONPath(string(text))
	return err
}

// MarshalText returns the text of String.
func (p JSONPath) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Find returns the value at the path in a value that package json decoded. It returns nil if the
// path leads to no value.
func (p JSONPath) Find(value any) any {
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

// ScalarText returns a string, number or boolean as text; false for other values.
func ScalarText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}
