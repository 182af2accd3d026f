package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
)

// HEAD is answered like GET, on routes and in groups, with their middleware. A route with only POST
// has no HEAD.
func TestHeadIsAnsweredAsGet(t *testing.T) {
	e, _ := testServer(t)
	marked := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { c.Response().Header().Set("X-Marked", "yes"); return next(c) }
	}
	show := func(c echo.Context) error { return c.String(http.StatusAccepted, "shown by "+c.Path()) }
	e.GET("/alone", show, marked)
	e.Group("/in", marked).GET("/group/:id", show)
	e.POST("/post", show)
	s := httptest.NewServer(e)
	defer s.Close()
	for path, want := range map[string]int{"/alone": 202, "/in/group/7": 202, "/post": 405, "/none": 404} {
		r, err := http.Head(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want || want == 202 &&
			(r.Header.Get("X-Marked") == "" || r.Header.Get("Content-Type") == "" || r.ContentLength <= 0) {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
	}
}
