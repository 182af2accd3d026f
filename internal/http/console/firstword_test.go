package console

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// instants matches the times in a sentence.
var instants = regexp.MustCompile(`\d{4}-\d\d-\d\d\s+\d\d:\d\d:\d\d(?:\.\d+)?|\b\d\d:\d\d\b|\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b|\b\d+ (?:s|min)(?: \d+ s)?\b`)

// firstWord returns the answer to a search: the verdict's sentences, or the message of a failed
// search. Times are replaced by "T".
func firstWord(t *testing.T, b *consoletest.Browser, typed string) string {
	t.Helper()
	rec := searchFor(b, typed)
	if rec.Code == http.StatusSeeOther {
		to := rec.Header().Get("Location")
		if strings.Contains(to, "maria") || strings.Contains(to, "%40") {
			t.Errorf("%q is in the address %s", typed, to)
		}
		rec = b.Get(to)
	}
	var shown []string
	rows := 0
	for _, part := range regexp.MustCompile(`(?s)<h1>.*?</h1>|<p class="next">.*?</p>|<p class="newer">.*?</p>|id="search-problem"[^>]*>.*?</p>|`+
		`<li><a href="/admin\?recipient=.*?</li>|<p class="card nothing">.*?</p>|id="r-`).FindAllString(rec.Body.String(), -1) {
		if strings.HasPrefix(part, "id=") && strings.HasSuffix(part, "r-") {
			rows++
			continue
		}
		text := markup.ReplaceAllString(part[strings.Index(part, ">")+1:], " ")
		shown = append(shown, strings.Join(strings.Fields(html.UnescapeString(text)), " "))
	}
	if len(shown) == 0 { // a list of several people's rows
		shown = append(shown, fmt.Sprint(rows, " rows"))
	}
	text := instants.ReplaceAllString(strings.Join(shown, " | "), "T")
	return strings.NewReplacer(" .", ".", " ,", ",", " ;", ";", "( ", "(", " )", ")", "“ ", "“", " ”", "”").Replace(text)
}

// firstWords has searches of an administrator, each with the sentences of its answer. In both, a
// name in braces stands for a value from firstWordRows.
var firstWords = []struct{ typed, says string }{
	// Maria got a code, and was refused afterwards. A search for her leads to the send. An address
	// with a tag counts as another person, unless the settings fold it.
	{"maria@example.com", maria},
	{"MARIA@EXAMPLE.COM", maria},
	{"  maria@example.com.  ", maria},
	{"mailto:maria@example.com?subject=code", maria},
	{"\u200bmaria@\u2060example.com\u00a0", maria},
	{`Maria <maria@example.com>`, maria},
	{`"Maria, of the shop" <maria@example.com>`, maria},
	{"“maria@example.com”", maria},
	{"maria (at) example.com", maria},
	{"maria%40example.com", maria},
	{"maria+news@example.com", "No request for m•••@example.com is recorded, as far back as the database goes. | " + norows},
	{"ginali+shop@gmail.com", ines}, // the test's settings make this the same mailbox
	{"Gina.L.I@GMAIL.com", ines},
	{"m•••@example.com {tag}", maria},
	{"M***@Example.com #{tag}", maria},
	{"{tag}", maria},
	{"{hash}", maria},
	{"order-7711", "1 rows"},
	{"{support}", mariasSend},
	{"{support, as heard}", mariasSend},
	{"{id}", mariasSend},
	{"<{id}.0123456789abcdef@codes.example>", mariasSend},
	{"Message-ID: <{id}.0123456789abcdef@codes.example>", mariasSend},
	{"{verification}", mariasSend},
	{"req-of-maria-0001", mariasSend},
	{`{"time":"2026-11-30T14:02:20.184+00:00","level":"WARN","msg":"abandoned send taken over","send":"{id}","attempt":2}`, mariasSend},
	{`"send":"{id}",`, mariasSend},
	{`{"msg":"replaced","id":"{id of pia}","send":"{id}"}`, mariasSend},
	{`time=2026-11-30T14:02:20Z level=INFO msg=request status=202 network=203.0.113.0/24 request_id=req-of-maria-0001`, mariasSend},
	{`{"id":"{verification}","status":"pending","to":"m•••@example.com"}`, mariasSend},
	{`{\"request_id\":\"req-of-maria-0001\"}`, mariasSend},
	{"From: Shop <noreply@shop.example>\nTo: Maria <maria@example.com>", maria},
	// Numbers in any spelling, and a carrier's message ID. A part of a number finds nothing.
	{"+49 151 23456789", nina},
	{"0049-151-23456789", nina},
	{"tel:+49(0)15123456789", nina},
	{"＋４９ １５１ ２３４５６７８９", nina},
	{"carrier-message-0042", nina},
	{"23456789", "No reference or ID is “23456789”. " + how},
	{"6789", "No reference or ID is “6789”. " + how},
	{"0151 23456789", "No reference or ID is “0151 23456789”. " + how},
	// These searches are for a domain in both forms, and for people in it.
	{"müller.example", "1 rows"},
	{"@xn--mller-kva.example", "1 rows"},
	{"ines@müller.example", ines},
	{"INES@xn--mller-kva.example", ines},
	// One person has a suppression that came after the send. Another has a refusal without an
	// earlier send of its purpose.
	{"paul@example.com", "Accepted by mx1.example.net at T (250 2.0.0). | Since T this recipient gets no mail (by hand · asked for no more mail · admin), until T. " +
		"Lift the suppression before a code is sent again. Ask them to check spam; the code works until T."},
	{"otto@example.com", "Refused at T (rule minute); T was left. | They can ask again from T. | Before it, at T, they were sent a code for login: sent. See that send"},
	// These searches find no send.
	{"nora(at)example.com", "No request for n•••@example.com is recorded, as far back as the database goes. | " + norows},
	{"zoe@example.com", "No request for z•••@example.com is recorded, as far back as the database goes. | " +
		"Since T this recipient gets no mail (by hand · a complaint by letter · admin), until T. Lift the suppression before a code is sent again. " + norows},
	{"maria", "No reference, ID or mail domain is “maria”. " + how},
	{"p•••@mail.example", "Several recipients look like “p•••@mail.example”. Choose one by the four characters beside it, or search for the whole " +
		"address or number. | p•••@mail.example {tag of pia} | p•••@mail.example {tag of per}"},
	{"q•••@mail.example", "None of the newest 1,000 requests is for a recipient that looks like “q•••@mail.example”. " + how},
	{"nowhere.example", "No code was sent to the mail domain “nowhere.example”, and no reference has this text. " + how},
	{"S-0000-0000", "No send has the support reference “S-0000-0000”, as far back as the database goes. " + how},
	{"0198f2b0-0000-7000-8000-000000000000", "No send, verification, request or recipient has the ID “0198f2b0-0000-7000-8000-000000000000”, " +
		"as far back as the database goes. " + how},
	{"203.0.113.7", "This is the address of a computer. “Network”, among the filters, finds the requests from it."},
	{"maria@example", "The part after the @ is not a complete domain name."},
	{"   ", "Enter what to look for."},
}

const (
	mariasSend = "Accepted by mx1.example.net at T (250 2.0.0). | Ask them to check spam; the code works until T. | " +
		"They asked again at T, and were refused (rule minute). They can ask again at T; until then the rule minute allows no more. See that request"
	maria = mariasSend
	nina  = "Accepted by mx1.example.net at T (250 2.0.0). | Is the phone on, and the number theirs? It may lie among messages from unknown " +
		"senders, or the phone may filter it. The code works until T."
	ines = "Accepted by mx1.example.net at T (250 2.0.0). | Ask them to check spam; the code works until T."
	how  = "A person is found by the whole address, such as maria@example.com, by the whole number with + and its country code, " +
		"such as +49 151 23456789, or by the reference on their page or in their mail, such as S-7K3M-Q2XP."
	norows = "Ask them to spell it, and whether they may have given another address or number; the reference on their page or in a mail also " +
		"finds the request. If all is right, the request stopped at a human check, was answered with 503, or never came here: check the app that should " +
		"have sent it, and have them ask again."
)

// Every search gets the sentence that support needs on the telephone, on each database. A search
// that finds nothing repeats the search's text and says how to find a person.
func TestSearchBeginsWithTheVerdict(t *testing.T) {
	for name, open := range map[string]func(*testing.T, ...func(*Config)) *rig{"SQLite": newRig, "Postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			r := open(t, func(c *Config) { c.Carriers = []string{"carrier-a"} })
			fill := r.firstWordRows()
			b := r.LoggedIn()
			for _, c := range firstWords {
				servertest.Same(t, c.typed, firstWord(t, b, fill.Replace(c.typed)), fill.Replace(c.says))
			}
			r.Unlogged("maria@", "MARIA@", "nora@", "23456789")
		})
	}
}

// firstWordRows writes the rows that firstWords search. It returns a replacer of the names in
// braces.
func (r *rig) firstWordRows() *strings.Replacer {
	r.Helper()
	sent := r.writeSent("maria@example.com", func(s *store.Send) { s.Reference, s.RequestID = "order-7711", "req-of-maria-0001" })
	r.writeRefused("maria@example.com", "minute", 50*time.Second, 1)
	number, err := recipient.Parse(recipient.SMS, "+4915123456789")
	r.Must(err)
	text := r.writeSent("nina@example.com", func(s *store.Send) {
		s.Channel, s.Recipient, s.To = recipient.SMS, number.Hash(r.Svc.Vault.IndexKey), number.Masked()
	})
	r.Must(r.db.ExpectReceipt(r.Context(), store.PendingReceipt{Carrier: "carrier-a", ID: "carrier-message-0042", Send: text.ID}, 0))
	r.writeSent("ines@müller.example")
	r.console.Administration.Vault.Folding = recipient.Folding{"gmail.com": {PlusTags: true, Dots: true}}
	gina, err := recipient.Parse(recipient.Email, "gina.li@gmail.com")
	r.Must(err)
	r.writeSent("gina.li@gmail.com", func(s *store.Send) { s.Recipient = r.console.Administration.Vault.CountedHash(gina) })
	r.writeSent("paul@example.com")
	r.suppress("paul@example.com", "asked for no more mail")
	r.writeSent("otto@example.com")
	r.writeRefused("otto@example.com", "minute", 50*time.Second, 1, func(s *store.SendOrRefusal) { s.Purpose = "signup" })
	r.suppress("zoe@example.com", "a complaint by letter")
	per, pia := r.writeSent("per@mail.example"), r.writeSent("pia@mail.example")
	support := store.SupportReference(sent.ID)
	heard := strings.ToLower(strings.ReplaceAll(support, "-", " "))
	return strings.NewReplacer("{tag}", sent.Recipient.Tag(), "{hash}", sent.Recipient.String(), "{id}", sent.ID.String(),
		"{verification}", sent.VerificationID, "{support}", support, "{support, as heard}", heard,
		"{tag of pia}", pia.Recipient.Tag(), "{id of pia}", pia.ID.String(), "{tag of per}", per.Recipient.Tag())
}
