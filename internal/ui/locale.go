package ui

import (
	"net/http"
	"sendcode/internal/texts"
	"slices"

	"golang.org/x/text/language"
)

// maxLocale is what package verification takes.
const maxLocale = 256

// textsOf picks the catalogue of the language that the browser prefers. Readers of traditional Chinese are better
// served by simplified Chinese than by English.
func textsOf(r *http.Request) *cardTexts {
	lang := texts.ForBase(r.Header.Get("Accept-Language"), texts.All()[0]).Lang()
	i := slices.IndexFunc(catalogues(), func(c *catalogue) bool { return c.mails.Lang == lang })
	return &catalogues()[i].mails
}

// localeOf is what the message is asked to be written in: all that the browser said, as templates may know more
// languages than this page, or the page's own language where the browser said too much.
func localeOf(r *http.Request) string {
	header := r.Header.Get("Accept-Language")
	if _, _, err := language.ParseAcceptLanguage(header); err != nil || header == "" || len(header) > maxLocale {
		return textsOf(r).Lang
	}
	return header
}
