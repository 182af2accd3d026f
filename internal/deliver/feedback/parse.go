package feedback

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// Parse returns the events in a body, which is one event or a list, in their order. Error:
// errMalformed.
func (s Source) Parse(body []byte) ([]Event, error) {
	value, err := decodeJSON(body)
	if err != nil {
		return nil, err
	}
	list, several := value.([]any)
	if !several {
		list = []any{value}
	}
	if len(list) > maxEvents {
		return nil, errMalformed
	}
	var all []Event
	for _, one := range list {
		if _, ok := one.(map[string]any); !ok {
			return nil, errMalformed
		}
		all = append(all, s.Format.parseEvent(one))
	}
	return all, nil
}

func (ef EventFormat) parseEvent(value any) Event {
	e := Event{To: firstText(value, ef.To), At: parseTime(firstText(value, ef.Time))}
	var words string
	e.Detail, words = extractDetail(value, ef.Detail)
	e.WordsMeaning = delivery.MeaningOf(words)
	e.Words = delivery.NormalizeReply(e.Detail, delivery.RedactReply(words, delivery.PrivateData{To: e.To}))
	var parts []string
	for _, p := range ef.Type {
		if t := asText(p.Find(value)); t != "" {
			parts = append(parts, t)
		}
	}
	e.Type = strings.Join(parts, ".")
	e.Meaning, e.Mapped = ef.meaning(parts)
	for _, p := range ef.Message {
		if id, ok := parseSendID(asText(p.Find(value))); ok {
			e.Send = id
			break
		}
	}
	return e
}

// meaning looks up the whole type in ef.Outcomes, and then shorter and shorter beginnings of it. If
// it finds none of them, it returns Ignored and false.
func (ef EventFormat) meaning(parts []string) (EventMeaning, bool) {
	for n := len(parts); n > 0; n-- {
		if o, ok := ef.Outcomes[strings.Join(parts[:n], ".")]; ok {
			return o, true
		}
	}
	return Ignored, false
}

// parseSendID returns the send's ID in a Message-ID of the service, "<send's ID>.<HMAC>@domain",
// with or without angle brackets, or in a text that is only the ID. The HMAC is not needed, because
// sources are authenticated.
func parseSendID(text string) (uuid.UUID, bool) {
	text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "<"), ">")
	local, _, _ := strings.Cut(text, "@")
	local, _, _ = strings.Cut(local, ".")
	id, err := uuid.Parse(local)
	return id, err == nil && strings.EqualFold(id.String(), local) && id != uuid.Nil
}

// parseTime returns the zero time for a text that is not a time, and for a year that can't be
// stored.
func parseTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(seconds) || math.Abs(seconds) > 1e11 {
			return time.Time{}
		}
		at = time.UnixMicro(int64(seconds * 1e6))
	}
	if at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}
	}
	return at.UTC()
}

var (
	replyCodePattern    = regexp.MustCompile(`(?:^|[^0-9.])([245][0-9]{2})(?:[^0-9.]|$)`)
	enhancedCodePattern = regexp.MustCompile(`(?:^|[^0-9.])([245]\.[0-9]{1,3}\.[0-9]{1,3})(?:[^0-9.]|$)`)
	singleWordPattern   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,39}$`)
)

// extractDetail returns the part of a provider's text that may be stored (codes, or a single word),
// and all words of the text.
func extractDetail(value any, paths []JSONPath) (detail, all string) {
	var found []string
	single := ""
	for _, p := range paths {
		t := asText(p.Find(value))
		found = append(found, t)
		if single == "" && singleWordPattern.MatchString(t) {
			single = t
		}
	}
	return cmp.Or(codesIn(found...), single), strings.Join(found, "\n") + "\n"
}

// codesIn returns the first reply code and the first enhanced status code, for example "550 5.1.1",
// or "".
func codesIn(found ...string) string {
	var reply, enhanced string
	for _, t := range found {
		if m := replyCodePattern.FindStringSubmatch(t); m != nil && reply == "" {
			reply = m[1]
		}
		enhanced = cmp.Or(enhanced, findEnhancedCode(t))
	}
	return strings.TrimSpace(reply + " " + enhanced)
}

// findEnhancedCode returns "" if there is no code.
func findEnhancedCode(detail string) string {
	if m := enhancedCodePattern.FindStringSubmatch(detail); m != nil {
		return m[1]
	}
	return ""
}

type JSONPath = providerhttp.JSONPath

// asText returns a scalar, or a list's first element if that is a scalar, as text, and "" for other
// values.
func asText(value any) string {
	if list, ok := value.([]any); ok && len(list) > 0 {
		if _, nested := list[0].([]any); !nested {
			return asText(list[0])
		}
	}
	single, _ := providerhttp.ScalarText(value)
	return single
}

// firstText returns "" if no path leads to a text.
func firstText(value any, paths []JSONPath) string {
	for _, p := range paths {
		if s := asText(p.Find(value)); s != "" {
			return s
		}
	}
	return ""
}

// decodeJSON fails if anything follows the value. Numbers stay text (json.Number).
func decodeJSON(body []byte) (any, error) {
	if len(body) > MaxBodyBytes {
		return nil, errMalformed
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil || d.More() {
		return nil, errMalformed
	}
	return value, nil
}
