package console

import (
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// rowsIn returns the IDs of the sends on a list page, newest first.
func rowsIn(body string) []string {
	var ids []string
	for _, m := range regexp.MustCompile(`<a href="/admin/sends/([0-9a-f-]{36})" title="[^"]*" data-row>`).FindAllStringSubmatch(body, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// linkIn returns the address of the link with this text, or "".
func linkIn(body, text string) string {
	m := regexp.MustCompile(`<a href="([^"]*)"[^>]*>` + text + `</a>`).FindStringSubmatch(body)
	if m == nil {
		return ""
	}
	return strings.ReplaceAll(m[1], "&amp;", "&")
}

// Rows that are added while a reader pages cause no row to be repeated or missed. Paging back shows
// the same pages, and ends on a full page.
func TestPaging(t *testing.T) {
	r := newRig(t)
	var all []string
	for i := range 23 {
		all = append(all, r.writeRefused("ana@example.com", "minute", time.Minute, 1).ID.String())
		if i%5 == 4 { // five rows share each instant
			r.Clock.Add(time.Millisecond)
		}
	}
	slices.Reverse(all)
	b, body := r.LoggedIn(), ""
	page := func(path string) []string {
		body = want(t, b.Get(path), http.StatusOK).Body.String()
		return rowsIn(body)
	}
	const first = "/admin?limit=5&status=refused"
	pages := [][]string{page(first)}
	for path := linkIn(body, "Older"); path != "" && len(pages) < 9; path = linkIn(body, "Older") {
		if pages = append(pages, page(path)); linkIn(body, "Newest") != first {
			t.Errorf("page %d: newest is %q", len(pages), linkIn(body, "Newest"))
		}
		if len(pages) < 4 {
			r.Clock.Add(time.Millisecond)
			r.writeRefused("bo@example.com", "minute", time.Minute, 1)
		}
	}
	if !slices.Equal(slices.Concat(pages...), all) || len(pages) != 5 {
		t.Errorf("%d pages, want 5 and 23 rows:\n%v\n%v", len(pages), pages, all)
	}
	for _, before := range slices.Backward(pages[:4]) {
		if rows := page(linkIn(body, "Newer")); !slices.Equal(rows, before) {
			t.Errorf("back: %v, want %v", rows, before)
		}
	}
	rows := page(linkIn(body, "Newer"))
	if len(rows) != 5 || !slices.Equal(rows[2:], pages[0][:3]) || linkIn(body, "Newer") != "" || linkIn(body, "Newest") != "" {
		t.Errorf("the first page: %v, newer %q", rows, linkIn(body, "Newer"))
	}
	want(t, b.Get("/admin?newer=x"), http.StatusUnprocessableEntity)
	cursor := layout.EncodeCursor(store.Cursor{At: r.Clock.Now()})
	want(t, b.Get("/admin?newer="+cursor+"&cursor="+cursor), http.StatusUnprocessableEntity)
}

// The open list reloads itself. The answer is 304 until there is another row, even a row that was
// committed late, or until a row has another state. Older pages do not change.
func TestListReloads(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	tag := ""
	changed := func(what, query string, changes bool) {
		t.Helper()
		rec := b.Get("/admin"+query, "If-None-Match", tag)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusNotModified}[changes]; rec.Code != want {
			t.Errorf("%s: %d, want %d", what, rec.Code, want)
		}
		if changes {
			tag = rec.Header().Get("ETag")
			contains(t, rec, `data-again="/admin`, `data-tag="`+html.EscapeString(tag)+`"`)
		}
	}
	changed("an empty list", "?app=shop", true)
	changed("the same", "?app=shop", false)
	s := r.begin("ana@example.com").Send
	changed("a new row", "?app=shop", true)
	r.Clock.Add(5 * time.Second)
	changed("time", "?app=shop", false)
	r.finish(s, store.Outcome{Status: store.Sent, Provider: "mx1.example.net"})
	changed("an outcome", "?app=shop", true)
	r.Must(r.Store.Check(t.Context(), storetest.Right(s.VerificationID)))
	changed("a right code", "?app=shop", true)
	r.writeRefused("bo@example.com", "minute", time.Minute, 1, func(s *store.SendOrRefusal) { s.App = "desk" })
	changed("a row of another app", "?app=shop", false)
	row := r.writeRefused("bo@example.com", "minute", time.Minute, 1)
	changed("a refusal", "?app=shop", true)
	r.Must(r.Store.RecordRefusals(t.Context(), []store.SendOrRefusal{row}))
	changed("the same refusal once more", "?app=shop", true)
	r.Clock.Add(-2 * time.Second)
	r.begin("late@example.com")
	r.Clock.Add(2 * time.Second)
	changed("a row from before the newest", "?app=shop", true)
	older := want(t, b.Get("/admin?cursor="+layout.EncodeCursor(cursorOf(s))), http.StatusOK)
	if lacks(t, older, "data-again"); older.Header().Get("ETag") != "" {
		t.Error("an older page has a tag")
	}
}

func TestAnswersWithoutTheDatabase(t *testing.T) {
	r, b := loggedIn(t)
	r.Break()
	for _, path := range []string{"/admin", "/admin/sends/0198f2b0-0000-7000-8000-000000000001"} {
		contains(t, want(t, b.Get(path), http.StatusServiceUnavailable), "The database does not answer")
		rec := b.Get("/v1" + strings.Replace(path, "/admin", "/admin/sends", 1-strings.Count(path, "sends")))
		want(t, rec, http.StatusServiceUnavailable)
		if rec.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
}
