package console

import (
	"net/url"
	"testing"

	"sendcode/internal/store"
)

// An unknown recipient is shown masked, as it was read, and is in no URL; the page of another search shows nothing of it.
func TestSearchNamesWhomItDidNotFind(t *testing.T) {
	_, b := loggedIn(t)
	for typed, shown := range map[string]string{" Nobody@EXAMPLE.com ": "<b>N•••@example.com</b>", "tel:+86-138-0013-8000": "<b>&#43;86 138•••000</b>"} {
		to := b.Post("/admin/search", url.Values{"q": {typed}}).Header().Get("Location")
		contains(t, b.Get(to), shown)
		lacks(t, b.Get(to), shown)
	}
}

// A send's page has no misleading facts: a code that did not arrive is not "pending", and "any language" is no language.
func TestFactsOfASend(t *testing.T) {
	r := newRig(t)
	s := r.begin("ana@example.com", func(s *store.Send) { s.Locale = "*" }).Send
	r.finish(s, store.Outcome{Status: store.Failed, Reason: "rejected", Provider: "mx1.example.net", ProviderCode: "550 5.1.1", Refund: true})
	page := r.loggedIn().Get("/admin/sends/" + s.ID.String())
	contains(t, page, "<dt>Code</dt><dd>open, but this message did not arrive</dd>")
	lacks(t, page, "<dd>*</dd>", "<dt>Language</dt>", "On trial")
	tried := r.sent("bo@example.com", func(s *store.Send) { s.Observed = []string{"office", "stricter"} })
	contains(t, r.loggedIn().Get("/admin/sends/"+tried.ID.String()), "<dt>On trial, would refuse</dt><dd>office, stricter</dd>")
	contains(t, r.loggedIn().Get("/admin"), `class="code none">–`)
	contains(t, r.loggedIn().Get("/admin/policies"), "24 h</td>")
}
