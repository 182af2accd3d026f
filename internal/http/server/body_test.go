package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
)

type sample struct {
	To    string            `json:"to"`
	Count int               `json:"count"`
	Rest  any               `json:"rest"`
	Keys  map[string]string `json:"keys"`
	Known []string          `json:"known"`
}

func readSample(body, media string, coding ...string) (sample, error) {
	var v sample
	e := echo.New()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", media)
	r.Header["Content-Encoding"] = coding
	return v, ReadJSON(e.NewContext(r, httptest.NewRecorder()), &v)
}

func TestReadJSONSaysWhereAndWhat(t *testing.T) {
	for _, c := range []struct {
		body, media, slug, field string
		position                 any
	}{
		{`{"to":"x"}`, "application/json; charset=utf-8", "", "", nil},
		{`{"to":"x"}`, `application/json; CHARSET="US-ASCII"`, "", "", nil},
		{`{"to":"é"}`, "application/json;charset=utf8", "", "", nil},
		{`{"to":"x"}`, "application/json; charset=utf-16", "", "", nil},
		{`{"to":"x"}`, "application/json; charset=", "", "", nil},
		{"{\"to\":\"\xe9\"}", "application/json; charset=latin1", UnsupportedMedia.Slug, "", nil},
		{"{\"to\":\"\xe9\"}", "application/json; charset=UTF-8", "malformed-json", "", int64(7)},
		{"\ufeff" + `{"to":"x"}`, "application/json", "", "", nil}, // a byte order mark
		{`{"to":"x"}`, "text/json", "unsupported-media-type", "", nil},
		{`{"to":"x"`, "application/json", "malformed-json", "", int64(9)},
		{`{"to":x}`, "application/json", "malformed-json", "", int64(6)},
		{``, "application/json", "malformed-json", "", int64(0)},
		{`{} {}`, "application/json", "malformed-json", "", int64(3)},
		{`[1]`, "application/json", "malformed-json", "", int64(0)},
		{`[object Object]`, "application/json", "malformed-json", "", int64(1)},
		{"[\x00]", "application/json", "malformed-json", "", int64(1)},
		{`[1`, "application/json", "malformed-json", "", int64(2)},
		{`{"to":[x}`, "application/json", "malformed-json", "", int64(7)},
		{`{"other":1,"to":x}`, "application/json", "malformed-json", "", int64(16)},
		{`{"to":1}x`, "application/json", "malformed-json", "", int64(8)},
		{`"`, "application/json", "malformed-json", "", int64(1)},
		{`null`, "application/json", "malformed-json", "", int64(0)},
		{`undefined`, "application/json", "malformed-json", "", int64(0)},
		{`to=x&y`, "application/json", "malformed-json", "", int64(1)},
		{"{\"to\":\"\x00\"}", "application/json", "malformed-json", "", int64(7)},
		{"{\"to\":\"\xc3\"}", "application/json", "malformed-json", "", int64(7)},
		{`{"to":1}`, "application/json", "invalid-field", "to", int64(6)},
		{`{"count":1.5}`, "application/json", "invalid-field", "count", int64(9)},
		{`{"other":1}`, "application/json", "unknown-field", "other", int64(1)},
		{`{"to":"x","to":"y"}`, "application/json", "malformed-json", "to", int64(10)},
		{`{"TO":"y"}`, "application/json", "unknown-field", "TO", int64(1)},
		{`{"rest":[{"a":1},{"a":{"b":[],"b":{}}}]}`, "application/json", "malformed-json", "b", int64(30)},
		{`{"rest":{"a":["b","b"],"b":"a","c":{"a":"a"}},"to":"to"}`, "application/json", "", "", nil},
		{`{"keys":{"user":1}}`, "application/json", "invalid-field", "keys.user", int64(16)},
		{`{"to":"\ud800"}`, "application/json", "malformed-json", "", int64(7)},
		{`{"` + strings.Repeat("x", 100) + `":1}`, "application/json", "unknown-field", strings.Repeat("x", 64) + "…", int64(1)},
	} {
		_, err := readSample(c.body, c.media)
		p := &Problem{}
		field := ""
		if errors.As(err, &p) {
			field, _ = p.Extra["field"].(string)
		}
		if (err != nil) != (c.slug != "") || p.Kind.Slug != c.slug || field != c.field || p.Extra["position"] != c.position {
			t.Errorf("%s: %v, %v, want %v", c.body, err, p.Extra, c)
		}
	}
}

// If a shell seems to have changed the quotes of a body, the refusal says how to send the body.
func TestReadJSONNamesTheShell(t *testing.T) {
	for body, named := range map[string]bool{
		`'{to:x,count:1}'`: true, `'{to:`: true, `{to:x}`: true, `{ to: x }`: true, `{\"to\":\"x\"}`: true, `{'to':'x'}`: true, `“{”`: true,
		`{“to”:“x”}`: true, `'{"to":"x"}'`: true, `{to:`: true, `"{to:x}"x`: true, `^{^"to^":1}`: true,
		`{"to":x}`: false, `to=x`: false, ``: false, `{`: false, `[1`: false, `[object Object]`: false, `{"to":"x",}`: false,
	} {
		_, err := readSample(body, "application/json")
		p := &Problem{}
		errors.As(err, &p)
		servertest.Same(t, body+p.Detail, strings.HasSuffix(p.Detail, `: send it from a file, with curl -d "@file".`), named)
	}
}

func TestReadJSONSaysWhatAFieldMustBe(t *testing.T) {
	for body, want := range map[string]string{
		`{"to":1}`: "a string", `{"count":"1"}`: "a whole number", `{"keys":[]}`: "an object", `{"known":"x"}`: "a list",
	} {
		_, err := readSample(body, "application/json")
		p := &Problem{}
		errors.As(err, &p)
		servertest.Same(t, body, p.Detail, "This field must be "+want+".")
	}
}

// A body may have up to 16 KiB, with or without a Content-Length.
func TestBodiesAreBounded(t *testing.T) {
	e, _ := testServer(t)
	e.POST("/v1/x", func(c echo.Context) error { return ReadJSON(c, &sample{}) })
	for size, want := range map[int]int{16 << 10: http.StatusOK, 16<<10 + 1: http.StatusRequestEntityTooLarge} {
		for _, announced := range []bool{true, false} {
			r := httptest.NewRequest(http.MethodPost, "/v1/x", strings.NewReader(`{"to":"`+strings.Repeat("x", size-9)+`"}`))
			r.Header.Set("Content-Type", "application/json")
			if !announced {
				r.ContentLength = -1
			}
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			servertest.Same(t, fmt.Sprint(size, " bytes, announced ", announced), w.Code, want)
		}
	}
}

// The refusal of a body with a content coding names the coding.
func TestReadJSONRefusesContentCodings(t *testing.T) {
	for coding, refused := range map[string]bool{"gzip": true, "br": true, "identity": false, "Identity": false} {
		_, err := readSample(`{"to":"x"}`, "application/json", coding)
		p := &Problem{}
		if errors.As(err, &p) != refused || refused && (p.Kind.Slug != UnsupportedMedia.Slug || !strings.Contains(p.Detail, coding)) {
			t.Errorf("%s: %v", coding, err)
		}
	}
}

// The refusal of a body in another encoding than UTF-8 names the encoding.
func TestReadJSONNamesOtherEncodings(t *testing.T) {
	for body, c := range map[string]struct{ charset, named string }{
		"{\x00\"\x00}\x00": {"", "UTF-16"}, "\x00{\x00}": {"utf-8", "UTF-16"}, "\xff\xfe{\x00}\x00": {"", "UTF-16"},
		"\xfe\xff\x00{\x00}": {"", "UTF-16"}, "{\"to\":\"\xe9\"}": {"iso-8859-1", "iso-8859-1"},
	} {
		_, err := readSample(body, "application/json; charset="+c.charset)
		p := &Problem{}
		if !errors.As(err, &p) || p.Kind.Slug != UnsupportedMedia.Slug || !strings.Contains(p.Detail, c.named) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// A position in a body is given as in editors: lines and columns begin with 1, and columns count
// characters.
func TestReadJSONSaysLineAndColumn(t *testing.T) {
	type position struct {
		line, column any
		inDetail     string
	}
	for body, want := range map[string]position{
		`{"to":x}`:                       {1, 7, "line 1, column 7)."},
		"{\n  \"to\": \"é😀\", x\n}":      {2, 15, "line 2, column 15)."},
		"{\r\n\"to\":\"x\",\r\n":         {3, 1, "line 3, column 1)."},
		"{\n\"to\":1}":                   {2, 6, ""},
		"{\n \"other\":1}":               {2, 2, ""},
		"{\"to\":\"x\",\n \"to\":\"y\"}": {2, 2, ""},
	} {
		_, err := readSample(body, "application/json")
		p := &Problem{}
		errors.As(err, &p)
		_, place, _ := strings.Cut(p.Detail, "(")
		servertest.Same(t, body, position{p.Extra["line"], p.Extra["column"], place}, want)
	}
}

// For any body, ReadJSON returns a value or a problem of the caller's, never a panic and never a
// 500.
func FuzzReadJSON(f *testing.F) {
	f.Fuzz(func(t *testing.T, body string) {
		_, err := readSample(body, "application/json")
		var p *Problem
		if err != nil && (!errors.As(err, &p) || p.Kind.Status >= 500) {
			t.Errorf("%q: %v", body, err)
		}
	})
}
