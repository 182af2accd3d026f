package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
)

// Every log line within a request's context has the request's ID: the line about a failure or a
// panic, and the access line, which also has the added attributes. The response has the ID in its
// header, and a problem also in its body.
func TestLinesOfARequestHaveItsID(t *testing.T) {
	var out bytes.Buffer
	logger := logs.AddRequestID(slog.New(slog.NewJSONHandler(&out, nil)))
	e := New(Config{Logger: logger})
	e.GET("/v1/x", func(c echo.Context) error {
		AdoptRequestID(c)
		logger.With("part", "log").WarnContext(c.Request().Context(), "within")
		logs.AddAttrs(c.Request().Context(), slog.String("app", "shop"))
		return errors.New("broken")
	})
	e.GET("/v1/panic", func(echo.Context) error { panic("the code is 123456") })
	for _, path := range []string{"/v1/x", "/v1/panic"} {
		for _, given := range []string{"", "order-7f3a9c2e41b0", "evil\nline 7f3a9c2e41b0"} {
			out.Reset()
			w := get(e, path, func(r *http.Request) { r.Header.Set(echo.HeaderXRequestID, given) })
			id, lines := w.Header().Get(echo.HeaderXRequestID), 0
			if (path == "/v1/x" && logs.IsRequestID(given)) != (id == given) ||
				!strings.Contains(w.Body.String(), `"request_id":"`+id+`"`) {
				t.Errorf("%s: %q became %q: %s", path, given, id, w.Body)
			}
			for line := range bytes.Lines(out.Bytes()) {
				var l struct {
					ID  string `json:"request_id"`
					App string
					Msg string
				}
				if err := json.Unmarshal(line, &l); err != nil || id == "" || l.ID != id || bytes.Count(line, []byte(`"request_id"`)) != 1 {
					t.Errorf("%s: %s, want the ID %s once", path, line, id)
				}
				if want := l.Msg == "request" && path == "/v1/x"; want != (l.App == "shop") {
					t.Errorf("%s: %s", path, line)
				}
				lines++
			}
			if strings.Contains(out.String()+w.Body.String(), "123456") {
				t.Errorf("a panic's value is told: %s %s", w.Body, out.String())
			}
			if lines != 3 || w.Code != http.StatusInternalServerError {
				t.Errorf("%s: %d with %d lines, want 3:\n%s", path, w.Code, lines, out.String())
			}
		}
	}
}

// A panic around the router is logged too. net/http would log it only at level debug, see
// NewHTTPServer.
func TestAPanicOfMiddlewareIsLogged(t *testing.T) {
	var out bytes.Buffer
	e := New(Config{Logger: slog.New(slog.NewTextHandler(&out, nil)), Served: func(string, int, time.Duration) { panic("planted") }})
	get(e, "/v1/x", func(*http.Request) {})
	if strings.Count(out.String(), "msg=panic") != 1 {
		t.Error(out.String())
	}
}

// The access line has the route instead of the address, and the client's network instead of its
// address. If the client gave the request an ID that the service did not adopt, the line also has
// this ID, unless the ID is malformed, has more than 128 characters or may name a person.
func TestAccessLineTellsNetworkAndGivenID(t *testing.T) {
	e, out := testServer(t, "127.0.0.0/8")
	e.GET("/v1/:id", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	e.GET("/v1/secret", func(c echo.Context) error { AdoptRequestID(c); return c.NoContent(http.StatusNoContent) })
	const root = "Root=1-67891233-abcdef012345678912345678"
	for _, c := range []struct{ client, network, given, logged string }{
		{"198.51.100.23", "198.51.100.0/24", "order-7f3a9c2e41b0", "order-7f3a9c2e41b0"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1::/48", root, root},
		{"198.51.100.23", "198.51.100.0/24", "job-7", "job-7"},
		{"198.51.100.23", "198.51.100.0/24", "4915112345678", ""},
		{"198.51.100.23", "198.51.100.0/24", "+4915112345678", ""},
		{"198.51.100.23", "198.51.100.0/24", "tel:+4915112345678", ""},
		{"198.51.100.23", "198.51.100.0/24", "tel:004915112345678", ""},
		{"198.51.100.23", "198.51.100.0/24", "0049-151-12345678", ""},
		{"198.51.100.23", "198.51.100.0/24", "job=7;try=12", "job=7;try=12"},
		{"198.51.100.23", "198.51.100.0/24", "ana.maria@example.org", ""},
		{"198.51.100.23", "198.51.100.0/24", "ana.maria=40example.org", ""},
		{"198.51.100.23", "198.51.100.0/24", "Ana Maria Lopez", ""},
		{"198.51.100.23", "198.51.100.0/24", "evil\nline-7f3a9c2e41b0", ""},
		{"198.51.100.23", "198.51.100.0/24", strings.Repeat("a", 129), ""},
		{"198.51.100.23", "198.51.100.0/24", strings.Repeat("a", 128), strings.Repeat("a", 128)},
		{"", "", "", ""}, // as on a Unix socket
	} {
		out.Reset()
		w := get(e, "/v1/capability?to=ana@example.com", func(r *http.Request) {
			r.Header.Set(echo.HeaderXRequestID, c.given)
			r.RemoteAddr = "@"
			if c.client != "" {
				r.RemoteAddr = "127.0.0.1:1234"
				r.Header.Set(echo.HeaderXForwardedFor, c.client)
			}
		})
		if c.given != "" && w.Header().Get(echo.HeaderXRequestID) == c.given {
			t.Errorf("%s was chosen by a client without a secret", c.given)
		}
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"network": c.network, "client_request_id": c.logged} {
			if got, there := line[name]; there != (want != "") || there && got != want {
				t.Errorf("%+v: %s is %v in %s", c, name, got, out)
			}
		}
		if output := out.String(); c.client != "" && strings.Contains(output, c.client) || strings.Contains(output, "capability") ||
			strings.Contains(output, "ana@example.com") || !strings.Contains(output, "/v1/:id") {
			t.Errorf("an address, or no route, is in %s", output)
		}
	}
	out.Reset()
	get(e, "/v1/secret", func(r *http.Request) { r.Header.Set(echo.HeaderXRequestID, "order-7f3a9c2e41b0") })
	if strings.Contains(out.String(), "client_request_id") || !strings.Contains(out.String(), `"request_id":"order-7f3a9c2e41b0"`) {
		t.Errorf("adopted: %s", out)
	}
}
