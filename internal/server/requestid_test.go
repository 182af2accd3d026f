package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"sendcode/internal/requestid"
)

// Every line that is written in a request's context has the request's ID: the access line, which has also what was noted, a failure's and
// a panic's. The answer has it in its header and, a problem, in its body.
func TestLinesOfARequestHaveItsID(t *testing.T) {
	var out bytes.Buffer
	logger := requestid.Logger(slog.New(slog.NewJSONHandler(&out, nil)))
	e := New(Config{Logger: logger})
	e.GET("/v1/x", func(c echo.Context) error {
		logger.With("part", "log").WarnContext(c.Request().Context(), "within")
		requestid.Note(c.Request().Context(), slog.String("app", "shop"))
		return errors.New("broken")
	})
	e.GET("/v1/panic", func(echo.Context) error { panic("the code is 123456") })
	for _, path := range []string{"/v1/x", "/v1/panic"} {
		for _, given := range []string{"", "order-7f3a9c2e41b0", "evil\nline 7f3a9c2e41b0"} {
			out.Reset()
			r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
			r.Header.Set(echo.HeaderXRequestID, given)
			e.ServeHTTP(w, r)
			id, lines := w.Header().Get(echo.HeaderXRequestID), 0
			if requestid.Valid(given) != (id == given) || !strings.Contains(w.Body.String(), `"request_id":"`+id+`"`) {
				t.Errorf("%s: %q became %q: %s", path, given, id, w.Body)
			}
			for line := range bytes.Lines(out.Bytes()) {
				var l struct {
					ID  string `json:"request_id"`
					App string
					Msg string
				}
				if err := json.Unmarshal(line, &l); err != nil || id == "" || l.ID != id || bytes.Count(line, []byte("request_id")) != 1 {
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
