package pagetest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"

	"sendcode/internal/http/api"
	"sendcode/internal/verify/verification"
)

// PublicKey is the public key of a site's widget.
const PublicKey = "pk_uitest_0123456789abcdef"

// Site is a page of another site that embeds the widget of a service. It has an origin of its own.
type Site struct {
	URL    string      // the address of the page: its origin and a slash
	Script string      // at /own.js; set before a visit
	Header http.Header // more headers of the page; set before a visit

	Document func(http.ResponseWriter) // writes the whole answer in place of the page; nil: the page

	server *httptest.Server
}

// NewSite starts a site; the caller must Close it. For each visit, of returns the content security
// policy, the head and the body of the page. css is part of the style sheet at /own.css.
func NewSite(css string, of func() (policy, head, body string)) *Site {
	mux, s := http.NewServeMux(), &Site{}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		if s.Document != nil {
			s.Document(w)
			return
		}
		policy, head, body := of()
		maps.Copy(w.Header(), s.Header)
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w,
			`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">`+
				`<title>Shop</title>%s</head><body>%s</body></html>`, head, body)
	})
	mux.HandleFunc("GET /own.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css")
		_, _ = io.WriteString(w, siteStyle+css)
	})
	mux.HandleFunc("GET /own.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = io.WriteString(w, s.Script)
	})
	s.server = httptest.NewServer(mux)
	s.URL = s.server.URL + "/"
	return s
}

// siteStyle is a shop's own style sheet, to which the widget adapts.
const siteStyle = `:root { color-scheme: light dark; } body { margin: 0; padding: 24px 16px; background: Canvas; color: CanvasText; font-family: Georgia, serif; }`

// Origin returns the site's origin.
func (s *Site) Origin() string { return strings.TrimSuffix(s.URL, "/") }

// Close ends the site.
func (s *Site) Close() { s.server.Close() }

// Embed starts a site with this markup, additional style and a strict content security policy, and
// allows the site to use the world's service.
func (w *World) Embed(markup, css string) *Site {
	base := strings.TrimSuffix(w.URL, "/")
	head := `<link rel="icon" href="data:,"><link rel="stylesheet" href="/own.css">` +
		`<script type="module" src="` + base + `/widget.js"></script>`
	policy := fmt.Sprintf( // trusts only the site and the service
		"default-src 'none'; script-src 'self' %[1]s; connect-src %[1]s; img-src data:; style-src 'self'; base-uri 'none'; form-action 'none'; "+
			"require-trusted-types-for 'script'; trusted-types 'none'", base)
	s := NewSite(css, func() (string, string, string) { return policy, head, markup })
	w.Allow(s.Origin())
	return s
}

// Allow allows pages of these origins, and of no others, to use the public key.
func (w *World) Allow(origins ...string) {
	w.api.SetKeys(api.Keys{{
		App: "shop", ID: "web", Kind: verification.Browser,
		SHA256: sha256.Sum256([]byte(PublicKey)), Origins: origins,
	}, api.NewPageKey("shop", verification.PageOffer{Purposes: []string{"default", "confirm"}})})
}
