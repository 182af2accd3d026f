package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/verification"
)

func TestPreferredWait(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"wait=5": 5 * time.Second, "WAIT = 5": 5 * time.Second, `wait="5"`: 5 * time.Second, "respond-async, wait=3": 3 * time.Second,
		"wait=0": 0, "wait=100": 20 * time.Second, "wait=99999999": 20 * time.Second, "return=minimal": 0, "": 0,
		"wait=2;x=1": 2 * time.Second,
	} {
		if got, err := preferredWait(http.Header{"Prefer": {header}}, verification.MaxWait); err != nil || got != want {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
	for _, header := range []string{"wait", "wait=", "wait=x", "wait=-1", "wait=1.5"} {
		if _, err := preferredWait(http.Header{"Prefer": {header}}, verification.MaxWait); err == nil {
			t.Errorf("%q is taken", header)
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	for header, want := range map[string]string{
		`"8e03978e-40d5-43"`: "8e03978e-40d5-43", `8e03978e-40d5-43`: "8e03978e-40d5-43", ` "one and a third " `: "one and a third ",
		`"a\"b\\c 3456789abcdef"`: `a"b\c 3456789abcdef`, strings.Repeat("k", 255): strings.Repeat("k", 255),
	} {
		if got, err := idempotencyKey(http.Header{"Idempotency-Key": {header}}); got != want || err != nil {
			t.Errorf("%q: %q, %v", header, got, err)
		}
	}
	for _, bad := range [][]string{
		{`8e03978e-40d5-4`},
		{`"8e03978e-40d5-4"`},
		{strings.Repeat("k", 256)},
		{""},
		{`"0123456789abcdef`},
		{`"0123456789abcdef";q=1`},
		{"0123456789abcdef b"},
		{"0123456789abcdef,b"},
		{`0123456789abcdef"b`},
		{"schlüssel-0123456789"},
		{"0123456789abcdef", "0123456789abcdef"},
	} {
		if got, err := idempotencyKey(http.Header{"Idempotency-Key": bad}); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

// For any header, the result is an error, or a key that is within bounds, has no character that
// could break a line, and is the same in its quoted form.
func FuzzIdempotencyKey(f *testing.F) {
	f.Fuzz(func(t *testing.T, header string) {
		key, err := idempotencyKey(http.Header{"Idempotency-Key": {header}})
		if err != nil {
			return
		}
		if len(key) < minIdempotencyKeyLength || len(key) > maxIdempotencyKeyLength ||
			strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q gave %q", header, key)
		}
		again, err := idempotencyKey(http.Header{"Idempotency-Key": {`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`}})
		if err != nil || again != key {
			t.Errorf("%q, quoted, is %q, %v", key, again, err)
		}
	})
}

// A request that waits outlives the server's timeouts for reading and writing.
func TestPreferredWaitOutlivesTheTimeouts(t *testing.T) {
	var status int
	var err error
	for wait := 200 * time.Millisecond; wait < servertest.Patience/4; wait *= 2 { // on a busy machine the first timeouts may be too short
		if status, err = waitFor(wait); err == nil && status == http.StatusOK {
			return
		}
	}
	t.Fatal(status, err)
}

// waitFor sends a request whose answer takes four times as long as the server's timeouts.
func waitFor(wait time.Duration) (status int, err error) {
	e := echo.New()
	e.POST("/", func(c echo.Context) error {
		_, _ = io.Copy(io.Discard, c.Request().Body)
		allowWait(c, wait)
		select {
		case <-c.Request().Context().Done():
			return c.NoContent(http.StatusGone)
		case <-time.After(wait):
			return c.NoContent(http.StatusOK)
		}
	})
	s := httptest.NewUnstartedServer(e)
	s.Config.ReadTimeout, s.Config.WriteTimeout = wait/4, wait/4
	s.Start()
	defer s.Close()
	r, err := http.Post(s.URL, "", strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	return r.StatusCode, r.Body.Close()
}
