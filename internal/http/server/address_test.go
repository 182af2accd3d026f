package server

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// The answer to a wrongly joined address names the mistake. All other unknown addresses get the
// same answer, and no hint names the administrators' routes.
func TestAddressHints(t *testing.T) {
	e := New(Config{Logger: slog.New(slog.DiscardHandler)})
	for _, path := range []string{"/v1/verifications", "/v1/verifications/:id/check", "/v1/admin/sends", "/docs"} {
		e.POST(path, func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	}
	for path, want := range map[string]string{
		"//v1/verifications":                "The address has two slashes in a row",
		"/v1//verifications":                "The address has two slashes in a row",
		"///v1/verifications/x/check":       "The address has two slashes in a row",
		"//verifications":                   "The address has two slashes in a row",
		"/verifications":                    "The address lacks /v1",
		"/verifications/x/check":            "The address lacks /v1",
		"/v1/v1/verifications":              "The address has /v1 twice",
		"/api/v1/verifications":             "The address has a path before /v1",
		"/codes/v1/verifications/x/check":   "The address has a path before /v1",
		"/v1/verifications/":                "The address ends with a slash",
		"/v1/verifications/x/check/":        "The address ends with a slash",
		"/v1/verification":                  "There is nothing at this address",
		"/nothing":                          "There is nothing at this address",
		"//docs":                            "There is nothing at this address",
		"//v1/admin/sends":                  "There is nothing at this address",
		"/admin/sends":                      "There is nothing at this address",
		"/v1/" + strings.Repeat("v1/", 100): "There is nothing at this address",
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.URL.Path = path
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		var answer struct{ Detail string }
		body, _ := io.ReadAll(w.Body)
		if err := json.Unmarshal(body, &answer); err != nil || w.Code != http.StatusNotFound || !strings.HasPrefix(answer.Detail, want) {
			t.Errorf("%s: %d %s", path, w.Code, body)
		}
	}
}
