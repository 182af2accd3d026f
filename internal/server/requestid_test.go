package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// Every line that is written in a request's context has the request's ID, which the answer has too: the access line, a failure's and a
// panic's. Lines of no request have none.
func TestLinesOfARequestHaveItsID(t *testing.T) {
	var out bytes.Buffer
	logger := LogRequestIDs(slog.New(slog.NewJSONHandler(&out, nil)))
	e := New(Config{Logger: logger})
	e.GET("/v1/x", func(c echo.Context) error {
		logger.With("part", "log").WarnContext(c.Request().Context(), "within")
		return errors.New("broken")
	})
	e.GET("/v1/panic", func(echo.Context) error { panic("the code is 123456") })
	for _, path := range []string{"/v1/x", "/v1/panic"} {
		out.Reset()
		w := get(e, path)
		id, lines := w.Header().Get(echo.HeaderXRequestID), 0
		for line := range bytes.Lines(out.Bytes()) {
			var l struct {
				ID string `json:"request_id"`
			}
			if err := json.Unmarshal(line, &l); err != nil || id == "" || l.ID != id || bytes.Count(line, []byte("request_id")) != 1 {
				t.Errorf("%s: %s, want the ID %s once", path, line, id)
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
	out.Reset()
	logger.Info("of no request")
	if bytes.Contains(out.Bytes(), []byte("request_id")) {
		t.Errorf("%s", out.String())
	}
}
