package generic

import (
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/deliver/sms"
)

var placeholderPattern = regexp.MustCompile(`\{([a-z_]+)\}`)

const secretPlaceholder = "secret"

func placeholderValues(m sms.Message, secret string) map[string]string {
	return map[string]string{
		"id": m.ID, "to": m.To, "to_digits": strings.TrimPrefix(m.To, "+"), "country": m.Country, "sender": m.Sender,
		"text": m.Text, "code": m.Code, "minutes": strconv.Itoa(m.Minutes), "purpose": m.Purpose,
		"language": m.Language,
		"callback": m.CallbackURL, "coding": dataCoding(m.Text), "life": strconv.Itoa(int(m.Life.Seconds())),
		secretPlaceholder: secret,
	}
}

// dataCoding returns 0 for GSM-7 and 2 for UCS-2. Gateways number character sets like bits 3 and 2
// of the Data Coding Scheme (3GPP TS 23.038 section 4). The whole octet would be 8 for UCS-2.
func dataCoding(text string) string {
	if sms.NeedsUCS2(text) {
		return "2"
	}
	return "0"
}

func unknownPlaceholders(template string) []string {
	known := placeholderValues(sms.Message{}, "")
	var unknown []string
	for _, found := range placeholderPattern.FindAllStringSubmatch(template, -1) {
		if _, ok := known[found[1]]; !ok && !slices.Contains(unknown, found[0]) {
			unknown = append(unknown, found[0])
		}
	}
	return unknown
}

func fillIn(template string, values map[string]string, escape func(string) string) string {
	return placeholderPattern.ReplaceAllStringFunc(template, func(name string) string {
		return escape(values[name[1:len(name)-1]])
	})
}

func escapeJSON(s string) string {
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // strings always encode
	text := strings.TrimSuffix(quoted.String(), "\n")
	return text[1 : len(text)-1]
}

// keepPrintableASCII also drops line breaks, which would end a header.
func keepPrintableASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}

type bodyFormat struct {
	contentType string
	escape      func(string) string
}

var (
	formBodyFormat = bodyFormat{"application/x-www-form-urlencoded", providerhttp.EscapeURLPart}
	jsonBodyFormat = bodyFormat{"application/json; charset=utf-8", escapeJSON}
)

// formatOf recognizes JSON by its first brace or bracket. A form begins with the name of a field.
func formatOf(body string) bodyFormat {
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		return jsonBodyFormat
	}
	return formBodyFormat
}

// checkBody fills the template with text that is hard to escape.
func checkBody(template string) error {
	nasty := "\"\\\n&=%+{text}é😀"
	filled := placeholderValues(sms.Message{
		ID: nasty, To: nasty, Sender: nasty, Text: nasty, Code: nasty, CallbackURL: nasty, Purpose: nasty, Language: nasty,
		Country: nasty,
	}, nasty)
	f := formatOf(template)
	body := fillIn(template, filled, f.escape)
	if f.contentType == jsonBodyFormat.contentType {
		if !json.Valid([]byte(body)) {
			return errors.New("is not JSON; put placeholders inside strings, as in {\"to\": \"{to}\"}")
		}
		return nil
	}
	if _, err := url.ParseQuery(body); err != nil || strings.HasPrefix(body, "<") {
		return errors.New("is neither JSON nor a form such as to={to}&text={text}")
	}
	return nil
}
