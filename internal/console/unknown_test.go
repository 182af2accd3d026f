package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/texts"
)

// Whoever mistyped their address waits for a code that went elsewhere: the right one leads there.
func TestSearchFindsWhoMistyped(t *testing.T) {
	r := newRig(t)
	theirs := r.sent("ana@gmial.com")
	r.sent("ana@exmaple.com") // nothing to do with it
	r.refused("anna@gmail.com", "minute", time.Minute, 1)
	b := r.loggedIn()
	to := b.Post("/admin/search", url.Values{"q": {"ana@gmail.com"}}).Header().Get("Location")
	_, hash := r.recipient("ana@gmail.com")
	if !strings.HasPrefix(to, "/admin?recipient="+hash.String()+"&near=") || strings.Contains(to, "ana") {
		t.Fatalf("leads to %q", to)
	}
	rec := b.Get(to)
	contains(t, rec, "No request for this recipient reached us", "One for <b>a•••@gmial.com</b>, spelled almost the same", "a•••@gmail.com", `<a href="/admin/sends/`+theirs.ID.String()+`">`,
		"Ask them how they spelled it", "We found no request for a code")
	lacks(t, rec, "exmaple", "Have them spell it")
	contains(t, b.Get(to, "Accept-Language", "zh-CN"), "有一个拼写几乎相同的 <b>a•••@gmial.com</b>")

	near := to
	r.clock.Add(25 * time.Hour)
	want(t, b.Login(consoletest.Password), http.StatusSeeOther)
	to = b.Post("/admin/search", url.Values{"q": {"ana@gmail.com"}}).Header().Get("Location")
	if to != "/admin?recipient="+hash.String() {
		t.Errorf("a day later it leads to %q", to)
	}
	rec = b.Get(to)
	contains(t, rec, "No request for this recipient reached us", "Have them spell it")
	lacks(t, rec, "spelled almost")
	r.log.SetFault(func(op string) sqlite.Fault {
		if op == "Latest" {
			return sqlite.Down
		}
		return 0
	})
	want(t, b.Post("/admin/search", url.Values{"q": {"bo@gmail.com"}}), http.StatusServiceUnavailable)
	want(t, b.Get(near), http.StatusServiceUnavailable)
}

// Of somebody who was erased, others' searches learn nothing.
func TestMistypedAndErased(t *testing.T) {
	r := newRig(t)
	r.sent("ana@gmial.com")
	_, theirs := r.recipient("ana@gmial.com")
	r.must(r.log.Erase(t.Context(), theirs, time.Hour, store.AuditEntry{ID: r.id(), Who: "admin", What: "recipient.erase", Reason: "ticket 7", Outcome: store.AuditDone}))
	b := r.loggedIn()
	rec := b.Get(b.Post("/admin/search", url.Values{"q": {"ana@gmail.com"}}).Header().Get("Location"))
	contains(t, rec, "No request for this recipient reached us")
	lacks(t, rec, "spelled almost")
}

// Where requests are turned away without a trace, that is the answer.
func TestNobodyIsServed(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	to := b.Post("/admin/search", url.Values{"q": {"+8613800138000"}}).Header().Get("Location") // the rig has no carrier
	if !strings.HasSuffix(to, "&unserved=not_configured") {
		t.Fatalf("leads to %q", to)
	}
	contains(t, b.Get(to), "There are no text messages: no carrier is configured.", "We do not send codes to that address or number.")
}

func TestVerdictsOnNobody(t *testing.T) {
	r := newRig(t)
	row := r.sent("ana@gmial.com")
	var out strings.Builder
	for _, h := range []hints{
		{}, {near: []recipient.Hash{row.Recipient}}, {near: []recipient.Hash{{1}}}, {unserved: "country_not_served", near: []recipient.Hash{row.Recipient}},
		{unserved: "voip"}, {unserved: "disposable"}, {unserved: "not_configured"}, {unserved: "of a later version"},
	} {
		fmt.Fprintf(&out, "== %q, %d near\n", h.unserved, len(h.near))
		for _, w := range texts.All() {
			v, err := r.console.nobody(t.Context(), h, w)
			r.must(err)
			fmt.Fprintf(&out, "%s\n%s\n", v.What, v.Next)
			for _, n := range v.Near {
				fmt.Fprintf(&out, "%s\n", n.Text)
			}
			fmt.Fprintf(&out, "%s\n", v.Answer.Text)
		}
		out.WriteString("\n")
	}
	consoletest.Golden(t, "nobody.txt", out.String())
}

func TestHintsAreTakenFromAnAddress(t *testing.T) {
	h := strings.Repeat("ab", 16)
	for raw, c := range map[string]struct {
		near     int
		unserved string
		rest     string
	}{
		"recipient=" + h:                                       {0, "", "recipient=" + h},
		"recipient=" + h + "&near=" + h:                        {1, "", "recipient=" + h},
		"recipient=" + h + "&near=" + h + "." + h + ".x":       {2, "", "recipient=" + h},
		"recipient=" + h + "&near=" + strings.Repeat(h+".", 9): {3, "", "recipient=" + h},
		"unserved=voip&recipient=" + h:                         {0, "voip", "recipient=" + h},
		"near=" + h:                                            {0, "", "near=" + h}, // for nobody: refused as unknown
		"recipient=" + h + "&near=%zz":                         {0, "", "recipient=" + h + "&near=%zz"},
	} {
		got, rest := takeHints(raw)
		if len(got.near) != c.near || got.unserved != c.unserved || rest != c.rest {
			t.Errorf("%s: %d near, %q, rest %s", raw, len(got.near), got.unserved, rest)
		}
	}
	b := newRig(t).loggedIn()
	want(t, b.Get("/admin?near="+h), http.StatusUnprocessableEntity)
	want(t, b.Get("/v1/admin/sends?recipient="+h+"&near="+h), http.StatusUnprocessableEntity)
}
