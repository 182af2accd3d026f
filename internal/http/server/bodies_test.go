package server

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
)

// Bodies that do not end use bounded memory: at most half of it for one network, and none once
// their requests are answered. Short bodies are never refused.
func TestBodiesInMemoryAreBounded(t *testing.T) {
	var log bytes.Buffer
	e := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	e.POST(ProviderEventsPath+":name", func(c echo.Context) error {
		if _, err := io.Copy(io.Discard, c.Request().Body); err != nil {
			return UnreadableBodyProblem(err)
		}
		return c.NoContent(http.StatusNoContent)
	})
	post := func(ip string, body io.Reader) int {
		r := httptest.NewRequest(http.MethodPost, ProviderEventsPath+"x", body)
		r.RemoteAddr = ip + ":1234"
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		return w.Code
	}
	const each = 1 << 20
	held := make(chan int)
	var open []*io.PipeWriter
	hold := func(ip string) {
		r, w := io.Pipe()
		open = append(open, w)
		go func() { held <- post(ip, r) }()
		_, _ = w.Write(make([]byte, each+uncountedBody)) // a write returns once the body was read, and fails if the body was refused
	}
	for range maxNetworkBodies / each {
		hold("192.0.2.1")
	}
	for ip, want := range map[string]int{"192.0.2.2": 503, "198.51.100.1": 204} {
		servertest.Same(t, "a large body of "+ip, post(ip, strings.NewReader(strings.Repeat("x", each))), want)
	}
	servertest.Same(t, "a short body of the network", post("192.0.2.1", strings.NewReader("{}")), 204)
	servertest.Same(t, "log", strings.Contains(log.String(), "network=192.0.2.0/24"), true)
	for range (maxBodies - maxNetworkBodies) / each {
		hold("198.51.100.1")
	}
	servertest.Same(t, "a large body of a third network", post("203.0.113.1", strings.NewReader(strings.Repeat("x", each))), 503)
	for _, w := range open {
		_ = w.Close()
		servertest.Same(t, "a body that ends", <-held, 204)
	}
	servertest.Same(t, "a large body of the network, later", post("192.0.2.1", strings.NewReader(strings.Repeat("x", each))), 204)
}

// A form with too many fields is refused before it is parsed, also if it arrives in pieces. Other
// bodies, and receipts, may have any number of separators.
func TestFieldsOfAFormAreBounded(t *testing.T) {
	e := New(Config{Logger: slog.New(slog.DiscardHandler)})
	read := func(c echo.Context) error {
		if err := c.Request().ParseForm(); err != nil {
			return UnreadableBodyProblem(err)
		}
		return c.NoContent(http.StatusNoContent)
	}
	e.POST("/form", read)
	e.POST(ReceiptsPath+"x", read)
	fields := func(n int) string { return strings.Repeat("a=1&", n-1) + "a=1" }
	for name, c := range map[string]struct {
		path, media, body string
		want              int
	}{
		"as many as a form may have": {"/form", "application/x-www-form-urlencoded", fields(maxFormFields), 204},
		"one more":                   {"/form", "application/x-www-form-urlencoded", fields(maxFormFields + 1), 400},
		"one more, with a charset":   {"/form", "application/x-www-form-urlencoded; charset=utf-8", fields(maxFormFields + 1), 400},
		"one more, in capitals":      {"/form", "Application/X-WWW-Form-URLEncoded ;", fields(maxFormFields + 1), 400},
		"empty fields":               {"/form", "application/x-www-form-urlencoded", strings.Repeat("&", maxFormFields), 400},
		"another body":               {"/form", "text/plain", fields(maxFormFields + 1), 204},
		"a receipt":                  {ReceiptsPath + "x", "application/x-www-form-urlencoded", fields(maxFormFields + 1), 204},
	} {
		for pieces, body := range map[string]io.Reader{
			"whole": strings.NewReader(c.body), "in pieces": iotest.OneByteReader(strings.NewReader(c.body)),
		} {
			r := httptest.NewRequest(http.MethodPost, c.path, body)
			r.Header.Set(echo.HeaderContentType, c.media)
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			servertest.Same(t, name+", "+pieces, w.Code, c.want)
		}
	}
}
