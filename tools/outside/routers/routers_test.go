// Package routers tests the middleware of quota with chi, gin and two versions of echo, as
// quota/README.md shows it. It is a separate module, so that the service does not depend on these
// routers. `make outside` runs it.
package routers

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

func newGuard(t *testing.T) *quotahttp.Guard {
	t.Helper()
	guard, err := quotahttp.New(quotahttp.Config{
		Limiter: quota.NewMemory(time.Now),
		Policy:  quota.Policy{Name: "web", Rules: []quota.Rule{{Name: "visits", Scope: quota.IP, Limit: 2, Window: time.Minute}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func TestChi(t *testing.T) {
	guard, router := newGuard(t), chi.NewRouter()
	router.With(guard.Take).Get("/prices/{id}", ok)
	router.With(guard.Take).Get("/stock", ok)
	check(t, router)
}

func TestGin(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	guard, router := newGuard(t), gin.New()
	take := func(c *gin.Context) {
		c.Request.Pattern = c.FullPath()
		taken := false
		guard.Take(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken = true })).ServeHTTP(c.Writer, c.Request)
		if !taken {
			c.Abort()
		}
	}
	router.GET("/prices/:id", take, gin.WrapF(ok))
	router.GET("/stock", take, gin.WrapF(ok))
	check(t, router)
}

func TestEcho4(t *testing.T) {
	guard, router := newGuard(t), echo4.New()
	router.Use(func(next echo4.HandlerFunc) echo4.HandlerFunc {
		return func(c echo4.Context) error {
			c.Request().Pattern = c.Path()
			return next(c)
		}
	})
	take := echo4.WrapMiddleware(guard.Take)
	router.GET("/prices/:id", echo4.WrapHandler(http.HandlerFunc(ok)), take)
	router.GET("/stock", echo4.WrapHandler(http.HandlerFunc(ok)), take)
	check(t, router)
}

func TestEcho5(t *testing.T) {
	guard, router := newGuard(t), echo.New()
	take := echo.WrapMiddleware(guard.Take)
	router.GET("/prices/:id", echo.WrapHandler(http.HandlerFunc(ok)), take)
	router.GET("/stock", echo.WrapHandler(http.HandlerFunc(ok)), take)
	check(t, router)
}

// check requests /prices/{id} once more than its limit of 2 allows, with different IDs, then
// /stock, which has a limit of its own.
func check(t *testing.T, router http.Handler) {
	t.Helper()
	for _, c := range []struct {
		path   string
		status int
		limit  string
	}{
		{"/prices/1", http.StatusNoContent, `"visits";r=1;t=60`},
		{"/prices/2", http.StatusNoContent, `"visits";r=0;t=60`},
		{"/prices/3", http.StatusTooManyRequests, `"visits";r=0;t=60`},
		{"/stock", http.StatusNoContent, `"visits";r=1;t=60`},
	} {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		if w.Code != c.status || w.Header().Get("RateLimit") != c.limit || len(w.Header()["Ratelimit"]) != 1 {
			t.Errorf("%s: %d %v %s", c.path, w.Code, w.Header(), w.Body)
		}
	}
}
