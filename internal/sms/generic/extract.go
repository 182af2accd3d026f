package generic

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"sendcode/internal/jsonpath"
	"strings"
)

// Extract says where in an answer's body a value stands: "$.messages.0.id" is a path through JSON, anything else a regular
// expression whose first group it is. The zero Extract finds nothing.
type Extract struct {
	text    string
	path    jsonpath.Path
	pattern *regexp.Regexp
}

// ParseExtract reads one; the error is a sentence's end.
func ParseExtract(text string) (Extract, error) {
	e := Extract{text: text}
	if rest, isPath := strings.CutPrefix(text, "$."); isPath {
		var err error
		e.path, err = jsonpath.Parse(rest)
		return e, err
	}
	pattern, err := regexp.Compile(text)
	if err != nil || pattern.NumSubexp() < 1 {
		return Extract{}, errors.New("is neither a path such as $.messages.0.id nor a regular expression with a group")
	}
	e.pattern = pattern
	return e, nil
}

// String gives it as it was read.
func (e Extract) String() string { return e.text }

// UnmarshalText is ParseExtract.
func (e *Extract) UnmarshalText(text []byte) (err error) {
	*e, err = ParseExtract(string(text))
	return err
}

// MarshalText is String.
func (e Extract) MarshalText() ([]byte, error) { return []byte(e.text), nil }

func (e Extract) set() bool { return e.path != nil || e.pattern != nil }

// from finds the value; false when it is not there.
func (e Extract) from(body []byte) (string, bool) {
	if e.pattern != nil {
		found := e.pattern.FindSubmatch(body)
		if found == nil {
			return "", false
		}
		return string(found[1]), true
	}
	if e.path == nil {
		return "", false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var at any
	if decoder.Decode(&at) != nil {
		return "", false
	}
	return jsonpath.Text(e.path.Find(at))
}
