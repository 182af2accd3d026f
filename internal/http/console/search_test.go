package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/store"
	"sendcode/quota"
)

func searchFor(b *consoletest.Browser, typed string) *httptest.ResponseRecorder {
	b.Helper()
	return b.Post("/admin/search", url.Values{"q": {typed}})
}

// A recipient's page has the verdict on the newest send above the rows, followed by the refusal
// after it. If there is no send of the same day and purpose, the refusal comes first. On a later
// page, and for erased recipients, there are only the rows.
func TestRecipientHasAVerdict(t *testing.T) {
	r := newRig(t)
	sent := r.writeSent("ana@example.com")
	r.Clock.Add(10 * time.Second)
	r.writeRefused("ana@example.com", "minute", 50*time.Second, 2)
	b, list := r.LoggedIn(), "/admin?recipient="+sent.Recipient.String()
	page := b.Get(list).Body.String()
	place := 0
	for _, told := range []string{
		"Accepted by mx1.example.net", "Ask them to check spam", "They asked again at", "refused (rule <b>minute</b>)",
		"They can ask again at", "We sent a code to", explain.SendPageAddress(sent.ID) + `">Open the send`, "<table",
	} {
		next := strings.Index(page[place:], told)
		if next < 0 {
			t.Fatalf("%q does not follow: %s", told, page)
		}
		place += next
	}
	contains(t, b.Get(list+"&status=refused"), "<h1>Refused 2 times since")
	r.writeRefused("ana@example.com", "minute", 50*time.Second, 1, func(s *store.SendOrRefusal) { s.Purpose = "signup" })
	contains(t, b.Get(list), "<h1>Refused at")
	contains(t, b.Get(list+"&status=sent"), "They asked again at", `<a href="`+explain.SendPageAddress(sent.ID)+`">Open the send</a>`)
	lacks(t, b.Get(linkIn(b.Get(list+"&limit=1").Body.String(), "Older")), `<p class="next">`, "Open the send")
	r.erase(sent)
	lacks(t, b.Get("/admin?recipient="+strings.Repeat("0", 32)), "Open the send")
}

// A search finds a recipient, a send's ID or a hash within a longer copied text.
func TestSearchFinds(t *testing.T) {
	r := newRig(t)
	ana := r.writeSent("ana@example.com")
	id, hash := ana.ID.String(), ana.Recipient.String()
	list, page := "/admin?recipient="+hash, explain.SendPageAddress(ana.ID)
	b := r.LoggedIn()
	for typed, to := range map[string]string{
		"ana@example.com": list, "  ANA@Example.COM\t": list, "Ana <ana@example.com>": list, "mailto:ana@example.com?subject=x": list,
		"ana@example.com,": list, "'ana @ example.com'": list, "(ana@example.com).": list, "`ana@example.com`": list,
		"「ana@example.com」，": list, "- ana@example.com": list, "We sent a code to ana@example.com.": list, "ana＠example.com": list,
		"a•••@example.com": list, "a***@example.com": list, hash: list,
		id: page, "<" + id + "@codes.example>": page, "<" + id + ".0123456789abcdef0123@codes.example>": page, "v" + id: page,
		"https://codes.example" + page + "?do=reset": page, "Send id\n" + id: page,
		"https://codes.example/admin?status=sent&app=shop": "/admin?status=sent&app=shop",
		"example.com": "/admin?domain=example.com", "@example.com": "/admin?domain=example.com",
	} {
		if got := searchFor(b, typed); got.Code != http.StatusSeeOther || got.Header().Get("Location") != to {
			t.Errorf("%q: %d to %q, want %q", typed, got.Code, got.Header().Get("Location"), to)
		}
	}
	nobody := searchFor(b, " Nobody@EXAMPLE.com ").Header().Get("Location") // an address without sends still has a list
	contains(t, want(t, b.Get(nobody), http.StatusOK), "No request for <b>N•••@example.com</b> is recorded")
	contains(t, want(t, r.LoggedIn().Get(nobody), http.StatusOK), "No request for this recipient is recorded")
	r.Unlogged("ana@", "ANA@", "obody@")
}

// A search without a result shows the text again beside the reason. In the table, a reason is the
// last part of the key of its text.
func TestSearchSaysWhatIsWrong(t *testing.T) {
	r := newRig(t)
	r.writeSent("ana@example.com")
	b := r.LoggedIn()
	for typed, reason := range map[string]string{
		"": "required", "   ": "required",
		"order-7": "unknown", "a b&c=d": "unknown", "2+2=4": "unknown", "C++ 20261120 123456": "unknown", "order 20261120123": "unknown",
		"maria": "unknown", "log": "unknown", "Shop": "unknown", "refused": "unknown", "minute": "unknown", "0198f2b0": "unknown",
		"S-0000-0000": "unknown.support", "+86 138•••000": "unknown.mask", "2026-03-04 14:02:20 UTC": "unknown", "2026-03-04T14:02:20.184Z": "unknown",
		"14:02:20":          "unknown",
		"+86 138 0013 8000": "not_configured", "＋8613800138000": "not_configured", "TEL: +86-138-0013-8000": "not_configured",
		"tel:+86-138-0013-8000": "not_configured", "+86\u2011138\u20130013\u20128000": "not_configured",
		"\u202a+86 138 0013 8000\u202c": "not_configured", "\u2066+86\u2009138\u202f00138000\u2069": "not_configured",
		"0086 138 0013 8000": "not_configured", "0086 138 0013 8000,": "not_configured",
		"13800138000": "unknown.digits", "138-0013-8000": "unknown.digits", "(030) 1234567": "unknown.digits", "030/1234567": "unknown.digits",
		"tel:13800138000": "unknown.digits", "\u202a13800138000\u202c": "unknown.digits", "138\u20110013\u20118000": "unknown.digits",
		"203.0.113.7": "network", "123456": "unknown.digits", "550 5.1.1": "unknown.digits",
		"＋86138001380001": "invalid_number", "१३८००१३८०००": "unknown.digits", "Tel. +86 138 0013 8000": "invalid_character",
		"+86 138 0013 8000 (Ana)": "invalid_character",
		"ana@":                    "no_domain", "@": "no_local_part", "ana@@example.com": "several_addresses", "ana@example": "domain_incomplete",
	} {
		rec := want(t, searchFor(b, typed), http.StatusUnprocessableEntity)
		bad := &fault.InvalidError{Reason: reason}
		if text := searchProblem(texts.ConsoleTextsFor(""), bad, searchTerm(typed)); text == "" || !strings.Contains(textOf(rec), text) {
			t.Errorf("%q: %q is not in: %s", typed, text, textOf(rec))
		}
	}
	contains(t, searchFor(b, "a b&c=d"), `value="a b&amp;c=d"`, "aria-invalid")
	for _, typed := range []string{strings.Repeat("x", 65), "x\x00y", "\xff"} {
		contains(t, want(t, searchFor(b, typed), http.StatusUnprocessableEntity), "This has at most 64 characters")
	}
}

// A support reference leads to its send, in any spelling.
func TestSearchBySupportReference(t *testing.T) {
	r := newRig(t)
	mine := r.writeSent("ana@example.com").ID
	r.writeSent("bea@example.com")
	ref := store.SupportReference(mine)
	b := r.LoggedIn()
	for _, typed := range []string{ref, strings.ToLower(ref), " " + strings.ReplaceAll(ref, "-", " ") + " "} {
		redirects(t, searchFor(b, typed), "/admin/sends/"+mine.String())
	}
	contains(t, searchFor(b, "S-0000-0000"), "No send has the support reference “S-0000-0000”")
	twin := r.writeSent("cem@example.com", func(s *store.Send) { s.ID = mine; s.ID[7]++ })
	if store.SupportReference(twin.ID) != ref {
		t.Fatal("the twin has a reference of its own")
	}
	r.writeSent("deb@example.com", func(s *store.Send) { s.ID = mine; s.ID[7]++; s.ID[15]++ }) // a send of the same moment
	rec := b.Get(searchFor(b, strings.ToLower(ref)).Header().Get("Location"))
	contains(t, rec, "These share the support reference <b>"+ref+"</b>", `name="support" value="`+ref+`"`, ">Clear</a>")
	if got := rowsIn(rec.Body.String()); !slices.Equal(got, []string{twin.ID.String(), mine.String()}) {
		t.Errorf("two sends of one reference: the list shows %v", got)
	}
	r.Break()
	want(t, searchFor(b, ref), http.StatusServiceUnavailable)
}

// A text that a person reads as an address or a phone number counts as one, however it is written.
// The search finds it or refuses it with a reason, and no URL contains it. Nor does any URL contain
// another text that is not in the database.
func TestSearchReadsAsAPerson(t *testing.T) {
	r := newRig(t)
	b, list := r.LoggedIn(), "/admin?recipient="+r.writeSent("maria.lopez+news@example.com").Recipient.String()
	for _, typed := range []string{
		"maria.lopez%2Bnews%40example.com", "mailto:maria.lopez%2Bnews%40example.com?subject=a", "maria.lopez%2Bnews@example.com",
		"maria.lopez%252Bnews%2540example.com", "%22Maria%22%20%3Cmaria.lopez%2Bnews%40example.com%3E", "maria.lopez+news＠example.com",
		"ｍａｒｉａ．ｌｏｐｅｚ＋ｎｅｗｓ＠ｅｘａｍｐｌｅ．ｃｏｍ", `"maria.lopez+news"@example.com`, "“maria.lopez+news”@example.com",
		"maria.lopez+news﹫example.com", "maria.lopez+news&#64;example.com", "maria.lopez+news&commat;example.com",
		`maria.lopez+news\u0040example.com`, "maria.lopez+news=40example.com", "maria.lopez+news (at) example.com",
		"maria.lopez+news[at]example.com", "maria.lopez+\u200bnews@example.com", "maria.lopez+news @ example . com",
	} {
		redirects(t, searchFor(b, typed), list)
		redirects(t, b.Post("/admin/filter", url.Values{"reference": {typed}}), list)
	}
	for _, typed := range []string{
		"maria.lopez%2Bnews%40", "maria at example dot com", "①③⑧⓪⓪①③⑧⓪⓪⓪", "%2B49 30 12", "０３０／１２３４５６", "maria.lopez example.com", "maria",
		"https://console.example/admin?reference=maria%40example.com",
	} {
		want(t, searchFor(b, typed), http.StatusUnprocessableEntity)
	}
	for _, field := range []string{"app", "purpose", "blocked_by", "carrier", "domain", "request"} {
		redirects(t, b.Post("/admin/filter", url.Values{field: {"maria.lopez%2Bnews%40example.com"}}), list)
		want(t, b.Post("/admin/filter", url.Values{field: {"%2B999 30 1234567"}}), http.StatusUnprocessableEntity)
	}
	redirects(t, b.Post("/admin/filter", url.Values{"domain": {"@example.com"}, "app": {""}, "status": {"sent"}}),
		"/admin?domain=example.com&status=sent")
}

// A search for a text that pages show of exactly one recipient leads to the recipient. A search for
// a mail domain leads to its sends, unless the text is a reference. For other texts, the page says
// what to type or to choose.
func TestSearchByWhatPagesShow(t *testing.T) {
	r := newRig(t)
	ana := r.writeSent("ana@gone.example")
	number := r.writeSent("nina@example.com", func(s *store.Send) { s.Channel, s.To = recipient.SMS, "+49 151•••789" })
	r.writeSent("bea@mail.example")
	r.writeSent("ben@mail.example")
	r.writeRefused("rea@flood.example", "network", time.Minute, 9, func(s *store.SendOrRefusal) { s.Recipients = 9 })
	b := r.LoggedIn()
	list := func(s store.Send) string { return "/admin?recipient=" + s.Recipient.String() }
	for typed, address := range map[string]string{
		ana.To: list(ana), "A...@gone.example": list(ana), "a***@Gone.example": list(ana), ana.To + " " + ana.Recipient.Tag(): list(ana),
		"#" + strings.ToLower(ana.Recipient.Tag()): list(ana), number.To: list(number), "b•••@mail.example  " + number.Recipient.Tag(): "",
		"gone.example": "/admin?domain=gone.example", "@Mail.example": "/admin?domain=mail.example", "ana": "", "other.example": "", "b•••@mail.example": "",
		"6789": "", "c•••@mail.example": "", "r•••@flood.example": "", // this row counts several recipients
	} {
		rec := searchFor(b, typed)
		if address != "" {
			redirects(t, rec, address)
			continue
		}
		says := "A person is found by the whole address"
		if strings.HasPrefix(typed, "b•••") {
			says = "Choose one by the four characters"
		}
		contains(t, want(t, rec, http.StatusUnprocessableEntity), says)
	}
	r.writeSent("cem@example.com", func(s *store.Send) { s.Reference = ana.Recipient.Tag() })
	redirects(t, searchFor(b, ana.Recipient.Tag()), "/admin?reference="+ana.Recipient.Tag())
	r.Break("Sends")
	want(t, searchFor(b, "gone.example"), http.StatusServiceUnavailable)
}

// A search finds a reference as the caller gave it, and in the form in which a person reads it.
func TestSearchReadsReferences(t *testing.T) {
	r := newRig(t)
	for n, reference := range []string{"order 7", "order  8", "订单（9）", "T-1001"} {
		r.writeSent(fmt.Sprintf("ana%d@example.com", n), func(s *store.Send) { s.Reference = reference })
	}
	b := r.LoggedIn()
	for typed, found := range map[string]string{
		"order  7": "order 7", "order\u00a07": "order 7", "ｏｒｄｅｒ　７": "order 7", "or\u200bder 7": "order 7",
		"order  8": "order  8", "订单（9）": "订单（9）", "t-1001": "T-1001", "#T-1001": "T-1001", "# t-1001": "T-1001",
	} {
		redirects(t, searchFor(b, typed), listAddress(nil, "reference", found))
	}
}

// A search for the ID of a request, whatever the ID looks like, leads to the request's sends,
// unless the ID is also a recipient, a send's ID or a reference. An ID that the service made
// contains the time of the request. Any other ID is searched in the last day.
func TestSearchByRequest(t *testing.T) {
	r := newRig(t)
	made, other := r.id(), uuid.NewString()
	const taken, trace, twice = "order-7f3a9c2e41b0", "4bf92f3577b34da6a3ce929d0e0e4736", "4711002"
	of := func(request string) func(*store.Send) { return func(s *store.Send) { s.RequestID = request } }
	to := map[string]string{twice: "/admin?reference=" + twice}
	for n, id := range []string{made.String(), other, taken, trace} {
		to[id] = explain.SendPageAddress(r.writeSent(fmt.Sprintf("ana%d@example.com", n), of(id)).ID)
	}
	r.writeSent("bea@example.com", of(twice))
	r.writeSent("eva@example.com", func(s *store.Send) { s.Reference = twice })
	const two = "a-request-of-two"
	r.writeSent("cem@example.com", of(two))
	r.writeSent("deb@example.com", of(two))
	to[two] = "/admin?request=" + two
	b := r.LoggedIn()
	for typed, address := range to {
		redirects(t, searchFor(b, typed), address)
	}
	if got := rowsIn(b.Get(to[two]).Body.String()); len(got) != 2 {
		t.Errorf("two sends of one request: %v", got)
	}
	contains(t, b.Get(to[taken]), "<dt>Request ID</dt><dd class=\"id\">"+taken+"</dd>")
	for n, moved := range []time.Duration{-48 * time.Hour, 48 * time.Hour} { // made by a client whose clock is wrong
		r.Clock.Add(moved)
		wrong := r.id()
		r.Clock.Add(-moved)
		found := r.writeSent(fmt.Sprintf("fay%d@example.com", n), of(wrong.String())).ID
		redirects(t, searchFor(b, wrong.String()), explain.SendPageAddress(found))
		for _, path := range []string{"/admin?request=", "/v1/admin/sends?request=", "/v1/admin/sends.csv?request="} {
			contains(t, b.Get(path+wrong.String()), found.String())
		}
	}
	r.Clock.Add(25 * time.Hour)
	b = r.LoggedIn()
	redirects(t, searchFor(b, made.String()), to[made.String()])
	want(t, searchFor(b, taken), http.StatusUnprocessableEntity)
}

func (r *rig) erase(s store.Send) {
	r.Helper()
	r.Must(r.Store.Erase(r.Context(), s.Recipient, time.Hour, r.act(auth.ActionEraseRecipient)))
}

// A back end's refused request belongs to no code. If the recipient still has a code, the page says
// until when it works.
func TestRefusalNamesTheCodeThatTheyHave(t *testing.T) {
	r := newRig(t)
	failed := r.begin("ana@example.com")
	r.finish(failed.Send, store.Outcome{Status: store.Failed, Reason: "rejected", Refund: true})
	r.Clock.Add(time.Minute)
	sent := r.writeSent("ana@example.com")
	r.Clock.Add(time.Second)
	row := r.writeRefused("ana@example.com", "minute", 42*time.Second, 1)
	other := r.writeRefused("ana@example.com", "minute", 42*time.Second, 1, func(s *store.SendOrRefusal) { s.Purpose = "signup" })
	b := r.LoggedIn()
	v, _, _, err := r.Store.Verification(r.Context(), sent.VerificationID)
	r.Must(err)
	until := v.ExpiresAt.UTC().Format("15:04:05")
	contains(t, b.Get(explain.SendPageAddress(row.ID)), "The code that they have works until", until+"</time>.",
		"The code that they have works until")
	lacks(t, b.Get(explain.SendPageAddress(other.ID)), "The code that they have")
	lacks(t, b.Get(explain.SendPageAddress(row.ID)), "They asked again") // the person did not ask again for this purpose
	lost := r.begin("bo@example.com")
	r.finish(lost.Send, store.Outcome{Status: store.Failed, Reason: "rejected", Refund: true})
	// the send never went out
	lacks(t, b.Get(explain.SendPageAddress(r.writeRefused("bo@example.com", "minute", time.Second, 1).ID)), "The code that they have")
	r.Clock.Add(11 * time.Minute)
	lacks(t, b.Get(explain.SendPageAddress(row.ID)), "The code that they have")
	r.Break("Sends")
	want(t, b.Get(explain.SendPageAddress(row.ID)), http.StatusServiceUnavailable)
}

// The page names the scope of a rule if the rule is in force for the purpose of the row.
func TestRefusalSaysWhomItsRuleCounts(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ purpose, rule, scope string }{
		{"login", "minute", "recipient"},
		{"login", "gone", ""},
		{"signup", "minute", ""},
		{"login", "client", "ip"},
		{"login", "network", "network"},
		{"login", policy.BackoffName, ""},
	} {
		row := store.SendDetails{Send: store.SendOrRefusal{
			Send:    store.Send{Purpose: c.purpose, Status: store.Refused},
			Refusal: store.Refusal{BlockedBy: c.rule},
		}}
		got, err := r.console.readVerdictFacts(t.Context(), row, quota.Decision{}, errSeveralRecipients)
		r.Must(err)
		if string(got.RuleScope) != c.scope {
			t.Errorf("%v: %q", c, got.RuleScope)
		}
	}
}

// Forgotten recipients share the zero hash. No page of one of them shows another one, or links to
// all of them as if they were one.
func TestForgottenRecipientsStayApart(t *testing.T) {
	r := newRig(t)
	other := r.writeSent("bo@example.com")
	r.Clock.Add(time.Second)
	row := r.writeRefused("ana@example.com", "minute", time.Minute, 1)
	for _, s := range []store.Send{row.Send, other} {
		r.Must(r.Store.Suppress(t.Context(), store.Suppression{
			ID: r.id(), Channel: s.Channel, Address: s.Recipient, Recipient: s.Recipient, To: s.To,
			Cause: store.CauseHardBounce, Detail: "550 5.1.1",
		}, time.Minute, nil))
		r.erase(s)
	}
	r.Clock.Add(time.Hour)
	n, err := r.Store.ForgetDueErased(t.Context())
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	b := r.LoggedIn()
	page := want(t, b.Get(explain.SendPageAddress(row.ID)), http.StatusOK)
	lacks(t, page, other.ID.String(), "everything of this recipient", strings.Repeat("0", 32))
	lacks(t, b.Get("/v1/admin/sends/"+row.ID.String()), other.ID.String())
	page = b.Get("/admin/suppressions?state=all")
	contains(t, page, "550 5.1.1", store.ErasedMask)
	lacks(t, page, `<a href="">`, strings.Repeat("0", 32)+`">`+store.ErasedMask)
}

// A filter with a mistake is shown again with the typed values, and with the mistake beside its
// field.
func TestAMistakenFilterKeepsWhatWasFilledIn(t *testing.T) {
	r, b := loggedIn(t)
	r.writeSent("ana@example.com")
	for query, field := range map[string]string{
		"from=2026-03-04T15:00:00&to=2026-03-04T14:00:00&app=shop": `name="to" type="datetime-local" step="1" value="2026-03-04T14:00:00"`,
		"network=office&app=shop":                                  `value="office" maxlength="49" spellcheck="false" autocapitalize="off" placeholder="203.0.113.0/24"`,
	} {
		rec := want(t, b.Get("/admin?"+query), http.StatusUnprocessableEntity)
		contains(t, rec, field+` aria-invalid="true" aria-describedby="filter-problem" autofocus><span class="note bad" id="filter-problem" role="alert">`,
			`name="app" value="shop"`, "<details open>", "This filter cannot be read", `href="/admin">`)
		lacks(t, rec, "a•••@example.com")
	}
	contains(t, want(t, b.Get("/admin?other=1"), http.StatusUnprocessableEntity), "There is no such parameter")
	rec := want(t, b.Get("/admin?status=lost&app=shop&channel=email"), http.StatusUnprocessableEntity)
	contains(t, rec, `<select name="status" aria-label="State" aria-invalid="true" aria-describedby="filter-problem" autofocus>`,
		`<option value="email" selected>`, `name="app" value="shop"`,
		`<p class="note bad" id="filter-problem" role="alert"><b>State</b>: You gave “lost”. This is one of: `)
}

// Every page with filters shows its form, or its link to all rows, beside a filter that cannot be
// read.
func TestAMistakenFilterOfOtherPages(t *testing.T) {
	b := newRig(t, func(c *Config) { c.Webhooks = &sampler{} }).LoggedIn()
	long := strings.Repeat("x", 65)
	for path, shows := range map[string][]string{
		"/admin/acts?what=sent&who=" + long: {
			`name="who" value="` + long + `"`, `placeholder="Who" aria-invalid="true"`, `<b>Who</b>: You gave “` + long[:64] + `…”. This may have at most 64 characters`, `href="/admin/acts">`,
		},
		"/admin/acts?what=" + long:               {`You gave “` + long[:64] + `…”. This may have at most 64 characters`},
		"/admin/acts?who=admin&cursor=x":         {`name="who" value="admin"`, `<b>cursor</b>: You gave “x”. This place`, `href="/admin/acts">`},
		"/admin/webhooks?app=shop&state=lost":    {`name="app" value="shop"`, `name="state" aria-label="State" aria-invalid="true"`, `<b>State</b>: You gave “lost”. This is one of: `},
		"/admin/webhooks?type=none&other=1":      {`<b>other</b>: There is no such parameter`, `action="/admin/webhooks"`},
		"/admin/webhooks?app=" + long:            {`name="app" value="` + long + `"`, `<b>App</b>: You gave “` + long[:64] + `…”. This may have at most 64 characters`},
		"/admin/suppressions?state=some":         {`<b>State</b>: You gave “some”. This is one of: active, all`, ` href="/admin/suppressions`},
		"/admin/suppressions?recipient=ana":      {`: You gave “ana”. A recipient`, `id="filter-problem"`, ` href="/admin/suppressions`},
		"/admin/prefixes?state=some":             {`<b>State</b>: You gave “some”. This is one of: active, all`, ` href="/admin/prefixes`},
		"/admin/overview?last=2h":                {`<select name="last" aria-label="Time" aria-invalid="true"`, `<b>Time</b>: You gave “2h”. This is one of: 1h, 24h, 7d, 30d`},
		"/admin/overview?by=recipient":           {`<b>by</b>: You gave “recipient”. Codes can be counted by app`, `action="/admin/overview"`},
		"/admin/overview?from=2026-01-01T00:00":  {`: You gave “2026-01-01T00:00”. Statistics cover at most 31 days`, `action="/admin/overview"`},
		"/admin/webhooks?recipient=%3Cb%3E":      {`: You gave “&lt;b&gt;”. A recipient`},
		"/admin/webhooks?type=a%00%E2%80%AEb%ff": {`: You gave “a��b�”. `},
	} {
		rec := want(t, b.Get(path), http.StatusUnprocessableEntity)
		contains(t, rec, append(shows, `id="filter-problem"`)...)
		if strings.HasPrefix(path, "/admin/overview") {
			lacks(t, rec, "chart-title")
		} else {
			contains(t, rec, "This filter cannot be read")
		}
	}
}
