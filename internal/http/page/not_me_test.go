package page_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/http/page"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
)

// reported answers as for a mail whose recipient reports it.
type reported struct{}

func (reported) MailedCode(context.Context, string) (store.Verification, error) {
	v := store.Verification{App: "shop"}
	v.To = "ana.m•••@example.com"
	return v, nil
}

func (r reported) ReportNotMe(ctx context.Context, token string) (store.Verification, error) {
	v, err := r.MailedCode(ctx, token)
	v.NotMeAt = time.Now()
	return v, err
}

// The page behind a mail's link has the app's accent, name and home. After the press the page says
// that it can be closed.
func TestNotMePageHasTheAppsBrand(t *testing.T) {
	e := server.New(server.Config{Logger: slog.New(slog.DiscardHandler)})
	page.RegisterNotMe(e, reported{}, func(string) (string, message.Brand) {
		return "Shop", message.NewBrand("https://cdn.example/logo.svg", "#0b7a5c", "https://shop.example/")
	})
	for method, close := range map[string]bool{http.MethodGet: false, http.MethodPost: true} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, "http://codes.example/not-me/token", nil)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		e.ServeHTTP(w, r)
		is(t, w.Code, http.StatusOK)
		contains(t, w.Body.String(), `<a href="https://shop.example/">`, `<img src="https://cdn.example/logo.svg" alt="">`, `<span>Shop</span>`)
		is(t, regexp.MustCompile("You can close this page").MatchString(w.Body.String()), close)
		style := regexp.MustCompile(`<style>(.*)</style>`).FindStringSubmatch(w.Body.String())
		if len(style) != 2 {
			t.Fatalf("no style: %s", w.Body)
		}
		sum := sha256.Sum256([]byte(style[1]))
		contains(t, style[1], "--accent:light-dark(#0b7a5c,")
		contains(t, w.Header().Get("Content-Security-Policy"), "style-src 'self' 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'",
			"img-src 'self' https://cdn.example/logo.svg")
	}
}
