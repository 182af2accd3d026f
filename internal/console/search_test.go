package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/texts"
)

func TestSearchLeadsToTheHash(t *testing.T) {
	r := newRig(t)
	id := r.sent("ana@example.com").ID.String()
	_, hash := r.recipient("ana@example.com")
	b := r.loggedIn()
	for typed, to := range map[string]string{
		"ana@example.com":     "/admin?recipient=" + hash.String(),
		"  ANA@Example.COM\t": "/admin?recipient=" + hash.String(),
		hash.String():         "/admin?recipient=" + hash.String(),
		id:                    "/admin/sends/" + id,
		strings.ToUpper(id):   "/admin/sends/" + id,
		"order-7":             "/admin?reference=order-7",
		"a b&c=d":             "/admin?reference=a+b%26c%3Dd",
		"2+2=4":               "/admin?reference=2%2B2%3D4",
		"C++ 20261120 123456": "/admin?reference=C%2B%2B+20261120+123456", // no number begins so
		"order 20261120123":   "/admin?reference=order+20261120123",
	} {
		rec := b.Post("/admin/search", url.Values{"q": {typed}})
		if got := rec.Header().Get("Location"); rec.Code != http.StatusSeeOther || got != to {
			t.Errorf("%q leads to %d %q, want %q", typed, rec.Code, got, to)
		}
	}
	rec := b.Get("/admin?recipient=" + hash.String())
	if got := rowsIn(rec.Body.String()); !slices.Equal(got, []string{id}) {
		t.Errorf("found %v", got)
	}
}

// A phone number is found as it is typed, and turns into its hash as well.
func TestSearchFindsPhoneNumbers(t *testing.T) {
	b := newRig(t).loggedIn()
	for _, typed := range []string{
		"＋8613800138000", "+86 138 0013 8000", "tel:+8613800138000", "TEL: +86-138-0013-8000", "+86\u2011138\u20130013\u20128000",
		"\u202a+86 138 0013 8000\u202c", "\u2066+86\u2009138\u202f00138000\u2069",
	} {
		rec := b.Post("/admin/search", url.Values{"q": {typed}})
		to := rec.Header().Get("Location")
		if rec.Code != http.StatusSeeOther || !strings.HasPrefix(to, "/admin?recipient=") || strings.Contains(to, "138") && strings.Contains(to, "00138000") {
			t.Errorf("%q: %d to %q", typed, rec.Code, to)
		}
	}
}

// What a person reads out from their page or mail leads to their send, however it is written down.
func TestSearchBySupportReference(t *testing.T) {
	r := newRig(t)
	r.clock.Add(10 * 365 * 24 * time.Hour) // references begin with 2020
	mine := r.sent("ana@example.com").ID
	r.sent("bea@example.com")
	ref := store.SupportReference(mine)
	b := r.loggedIn()
	for _, typed := range []string{ref, strings.ToLower(ref), " " + strings.ReplaceAll(ref, "-", " ") + " "} {
		rec := b.Post("/admin/search", url.Values{"q": {typed}})
		if got := rec.Header().Get("Location"); got != "/admin/sends/"+mine.String() {
			t.Errorf("%q leads to %d %q", typed, rec.Code, got)
		}
	}
	rec := b.Post("/admin/search", url.Values{"q": {"S-0000-0000"}}) // nobody's, so it may be an app's own
	if got := rec.Header().Get("Location"); got != "/admin?reference=S-0000-0000" {
		t.Errorf("one that no send has leads to %q", got)
	}
	twin := r.sent("cem@example.com", func(s *store.Send) { s.ID = mine; s.ID[7]++ })
	if store.SupportReference(twin.ID) != ref {
		t.Fatal("the twin has a reference of its own")
	}
	r.sent("deb@example.com", func(s *store.Send) { s.ID = mine; s.ID[7]++; s.ID[15]++ }) // of the same moment
	rec = b.Get(b.Post("/admin/search", url.Values{"q": {strings.ToLower(ref)}}).Header().Get("Location"))
	contains(t, rec, "These share the support reference <b>"+ref+"</b>", `name="support" value="`+ref+`"`, ">Clear</a>")
	if got := rowsIn(rec.Body.String()); !slices.Equal(got, []string{twin.ID.String(), mine.String()}) {
		t.Errorf("two sends of one reference: the list shows %v", got)
	}
	want(t, b.Get("/admin?support=order-7"), http.StatusUnprocessableEntity)
	r.log.SetFault(func(string) sqlite.Fault { return sqlite.Down })
	want(t, b.Post("/admin/search", url.Values{"q": {ref}}), http.StatusServiceUnavailable)
}

// Whatever may be a recipient, well-formed or not, never comes back as an address of a page.
func TestSearchPutsNobodyIntoAnAddress(t *testing.T) {
	b := newRig(t).loggedIn()
	for _, typed := range []string{
		"ana@", "@example.com", "ana@@example.com", "Ana <ana@example.com>", "ana＠example.com", "ana@example", "mailto:ana@example.com",
		"13800138000", "138 0013 8000", "138-0013-8000", "(030) 1234567", "+1 (212) 555-01", "＋86138001380001", "030/1234567", "१३८००१३८०००",
		"Tel. +86 138 0013 8000", "+86 138 0013 8000 (Ana)", "Ana ＋86/138.0013-8000", "tel:13800138000", "\u202a13800138000\u202c", "138\u20110013\u20118000",
		"", "   ", strings.Repeat("x", 65), "x\x00y", "\xff",
	} {
		rec := b.Post("/admin/search", url.Values{"q": {typed}})
		if rec.Code != http.StatusUnprocessableEntity || rec.Header().Get("Location") != "" {
			t.Errorf("%q: %d to %q", typed, rec.Code, rec.Header().Get("Location"))
		}
		contains(t, rec, `aria-invalid="true" aria-describedby="search-problem"`, `id="search-problem" role="alert"`)
	}
}

func TestSearchSaysWhatIsWrong(t *testing.T) {
	b := newRig(t).loggedIn()
	rec := b.Post("/admin/search", url.Values{"q": {"ana@example"}})
	contains(t, rec, "The part after the @ is not a complete domain name.", `value="ana@example"`)
	rec = b.Post("/admin/search", url.Values{"q": {"ana@example"}}, "Accept-Language", "zh-CN")
	contains(t, rec, "@ 后不是完整的域名。")
	contains(t, b.Post("/admin/search", url.Values{}), "Enter what to look for.")
}

// Every reason of the parser has its sentence in Chinese too.
func TestSearchReasonsInChinese(t *testing.T) {
	for _, reason := range append(recipient.Reasons(), "not_configured", "unsupported") {
		if texts.For("zh").Get("search.reason."+reason) == "" {
			t.Errorf("no text for %q", reason)
		}
	}
}

// The whole way of a search, in the pages and in the API, leaves the address nowhere.
func TestNoFullRecipientAnywhere(t *testing.T) {
	const local, domain = "canary.bird", "nest.example"
	const whole = local + "@" + domain
	r := newRig(t)
	sent := r.sent(whole)
	r.refused(whole, "minute", 30*time.Second, 2, func(s *store.Send) { s.VerificationID = sent.VerificationID })
	b := r.loggedIn()
	rec := b.Post("/admin/search", url.Values{"q": {whole}})
	want(t, rec, http.StatusSeeOther)
	answers := []string{rec.Header().Get("Location"), rec.Body.String()}
	for _, path := range []string{rec.Header().Get("Location"), "/admin", "/admin/sends/" + sent.ID.String(), "/v1/admin/sends", "/v1/admin/sends/" + sent.ID.String()} {
		rec := b.Get(path)
		want(t, rec, http.StatusOK)
		contains(t, rec, "c•••@nest.example")
		answers = append(answers, rec.Body.String())
	}
	rec = b.Do(http.MethodPost, "/v1/admin/search", `{"channel":"email","to":"`+whole+`"}`, "Content-Type", "application/json")
	want(t, rec, http.StatusOK)
	for _, text := range append(answers, rec.Body.String(), r.logged.String()) {
		if strings.Contains(text, local) {
			t.Errorf("the recipient is in: %s", text)
		}
	}
}
