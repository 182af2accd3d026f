package page

import (
	"cmp"
	"context"
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// testdata/cards.json has the right card for each state of a verification. This test compares the
// server's cards with it, theTableOfCards those of the widget.

// cardCase is one row of the table. Texts are keys of the page's catalogue.
type cardCase struct {
	Name  string
	State struct {
		Channel recipient.Channel  // empty: mail
		Status  verification.State // empty: there is no verification
		Send    store.Status
		Number  int         // of the send; 0: the first
		Counts  bool        // the send keeps its place
		Rule    string      // that waits
		Scope   quota.Scope // of the rule; empty: the recipient's
		Wait    int         // seconds; 0: the next code may be asked for
		Refused bool        // more was asked for
		Note    string      // what the last act came to
		Tries   int         // left; 0: all of them
		Screen  requestedView
		Known   bool   // the browser
		Title   string // of the purpose
		Left    []int  // places of the default rules; none: there is one rule
	}
	Card drawn
}

// drawn has the parts of a card that the table names.
type drawn struct {
	Kind, Heading, Again, Message, Error string
	Parts                                []string
}

var windows = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// told stands in for the use cases, with the answers of a row.
type told struct {
	codeService
	answer verification.Answer
}

func (t told) Get(context.Context, verification.Caller, string) (verification.Answer, error) {
	return t.answer, nil
}

func (told) Channels(string) ([]verification.ChannelInfo, error) {
	return []verification.ChannelInfo{{Channel: recipient.Email}, {Channel: recipient.SMS, Countries: []string{"DE"}}}, nil
}

func (c cardCase) answer(now time.Time) verification.Answer {
	s, shape := c.State, code.Shape{Alphabet: code.Digits, Length: 6}
	v := verification.View{
		ID: "v", State: s.Status, Channel: c.channel(), To: "a•••@example.com", CreatedAt: now.Add(-time.Minute),
		ExpiresAt: now.Add(9 * time.Minute), Now: now,
		AttemptsRemaining: c.tries(), CodeShape: shape, PurposeTitle: s.Title,
		Send: verification.SendView{Number: max(1, s.Number), Status: s.Send, Counts: s.Counts, At: now.Add(-10 * time.Second)},
	}
	if !inFlight(s.Send) {
		v.Send.FinishedAt = now.Add(-9 * time.Second)
	}
	rules := []quota.State{{Rule: quota.Rule{Name: "own", Scope: quota.Recipient, Limit: 9, Window: 2 * time.Hour}}}
	if s.Rule != "" {
		wait := time.Duration(s.Wait) * time.Second
		rule := quota.Rule{
			Name: s.Rule, Scope: cmp.Or(s.Scope, quota.Recipient), Limit: 1,
			Window: max(wait, cmp.Or(windows[s.Rule], 2*time.Hour)),
		}
		rules = []quota.State{{Rule: rule, Used: 1, RetryAfter: wait, ResetAfter: wait}}
	}
	if s.Left != nil {
		rules = nil
	}
	for i, left := range s.Left {
		name := []string{"minute", "hour", "day"}[i]
		rule := quota.Rule{Name: name, Scope: quota.Recipient, Limit: []int{1, 5, 10}[i], Window: windows[name]}
		rules = append(rules, quota.State{Rule: rule, Used: rule.Limit - left})
	}
	return verification.Answer{View: v, Quota: quota.Decision{At: now, Rules: rules}}
}

func (c cardCase) channel() recipient.Channel { return cmp.Or(c.State.Channel, recipient.Email) }

func (c cardCase) tries() int { return cmp.Or(c.State.Tries, 5) }

// notes are the words of the table in those of a cookie.
var notes = map[string]postNote{
	"wrong": {Kind: noteWrongCode}, "many": {Kind: noteTooManyChecks}, "away": {Kind: noteUnavailable}, "slow": {Kind: noteUnavailable, Reason: slowReason},
	"required": {Kind: noteBadCode, Reason: "required"}, "foreign": {Kind: noteBadCode, Reason: "not_digits"},
	"length": {Kind: noteBadCode, Reason: "too_long"},
}

// text is a text by its key, or several by theirs, filled as a card of the case fills it.
func (c cardCase) text(t words, key string) string {
	if first, more, several := strings.Cut(key, " "); several {
		return c.text(t, first) + t["Separator"] + c.text(t, more)
	}
	if _, counted := t[key+".other"]; counted {
		return t.plural(key, c.tries())
	}
	return t.fill(key, "n", "6")
}

var cardParts = map[string]string{
	"help": `<details class="help"`, "rules": `class="rules"`,
	"open": `class="rules" open`, "instead": `class="instead"`, "forget": `id="forget"`, "last": `href="/?view=code"`,
	"title": "</strong> to confirm your address",
}

func drawnIn(page string) (d drawn) {
	one := func(pattern string) string {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(page); m != nil {
			return html.UnescapeString(m[1])
		}
		return ""
	}
	d = drawn{
		Kind: one(`data-kind="(\w+)"`), Heading: one(`<h\d id="heading"[^>]*>([^<]*)<`),
		Again:   one(`id="again"[^>]* data-ready="([^"]*)"`),
		Message: one(`<p class="box (?:warn|bad|note)"[^>]*>([^<]*)<`), Error: one(`id="code-error"[^>]*>([^<]*)<`),
		Parts: []string{},
	}
	for _, part := range slices.Sorted(maps.Keys(cardParts)) {
		if strings.Contains(page, cardParts[part]) {
			d.Parts = append(d.Parts, part)
		}
	}
	return d
}

func TestTheServerDrawsTheTable(t *testing.T) {
	file, err := os.ReadFile("testdata/cards.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []cardCase
	if err := json.Unmarshal(file, &cases); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 4, 14, 2, 20, 0, time.UTC)
	for _, c := range cases {
		u := New(Config{Codes: told{answer: c.answer(now)}, Now: func() time.Time { return now }})
		l := &visit{
			Page: u, ctx: t.Context(), view: c.State.Screen, t: english.forChannel(c.channel()),
			regions: []string{"DE"}, known: c.State.Known,
			session: session{
				channelState: channelState{Channel: c.channel(), ID: "v", Refused: c.State.Refused},
				Note:         notes[c.State.Note],
			},
		}
		if c.State.Status == "" { // nothing was sent yet
			l.session.channelState = channelState{
				Channel: c.channel(), To: "ana@example.com", Refused: c.State.Refused,
				By: c.answer(now).Quota.Rules[0].Rule, Until: now.Add(time.Duration(c.State.Wait) * time.Second),
			}
		}
		page, err := render(l.card(), true)
		if err != nil {
			t.Fatal(err)
		}
		want := c.Card
		for _, text := range []*string{&want.Heading, &want.Again, &want.Message, &want.Error} {
			*text = c.text(l.t, *text)
		}
		if got := drawnIn(string(page)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", c.Name, got, want)
		}
	}
}

// What a browser names goes before what is configured, and that before what its languages, or else
// the page's, only suggest.
func TestWhereAReaderMayBe(t *testing.T) {
	for languages, want := range map[string]string{
		"de-AT,en;q=0.5": "AT CH US", "de,en-GB;q=0.8": "GB CH DE", "zh-Hans": "CH CN",
		// named none: where the page's language is spoken
		"": "CH US", "es-419": "CH ES", "x": "CH US",
		"de-AT" + strings.Repeat(",ak", 5000): "CH US", // too long to be read
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Language", languages)
		if got := strings.Join(likelyRegions(r, "CH"), " "); got != want {
			t.Errorf("%q: %s, want %s", languages, got, want)
		}
	}
}

func TestOnlyAllowedAddressesAreReturnedTo(t *testing.T) {
	allowed := []string{"https://shop.example/welcome", "https://app.example"}
	wanted := map[string]string{
		"https://shop.example/welcome":             "https://shop.example/welcome",
		"HTTPS://Shop.Example:443/welcome":         "https://shop.example/welcome",
		"https://shop.example/x/../welcome//a":     "https://shop.example/welcome/a",
		"https://shop.example/welcome/a;b=1/c..;d": "https://shop.example/welcome/a;b=1/c..;d",
		"https://app.example":                      "https://app.example/",
	}
	for _, refused := range []string{
		"https://shop.example/welcomes", "https://shop.example:8443/welcome", "http://shop.example/welcome", "//shop.example/welcome",
		"https://shop.example@evil.example/", "https://shop.example/welcome#fragment", "javascript:alert(1)", "https:shop.example/welcome",
		"", "https://app.example/" + strings.Repeat("a", 1024),
		"https://shop.example/welcome/../admin", "https://shop.example/welcome/..%2fa", "https://shop.example/welcome%2f..%2fa",
		"https://shop.example/welcome/\\..\\a", "https://shop.example/welcome/..%5Cadmin", "https://shop.example/welcome/..%00/admin",
		"https://shop.example/welcome/..;/admin", "https://shop.example/welcome/..;x=1/admin", "https://shop.example/welcome/.;/admin",
		"https://shop.example/welcome/..;", "https://shop.example/welcome/%252e%252e/admin", "https://shop.example/welcome/%252E./admin",
		"https://shop.example/welcome/.%2e;/admin", "https://shop.example/welcome/%2e%2e%3b/admin",
	} {
		wanted[refused] = ""
	}
	for text, want := range wanted {
		if to, ok := allowedReturnURL(allowed, text); ok != (want != "") || ok && to != want {
			t.Errorf("%s leads to %q, want %q", text, to, want)
		}
	}
}

// The cookie keeps the end of the code on each channel, by which it lives as long as a code of a day.
func TestTheCookieKeepsWhenCodesEnd(t *testing.T) {
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := session{channelState: channelState{ID: "a", Expires: end}, Other: channelState{ID: "b", Expires: end.Add(time.Hour)}, Ends: end.Add(2 * time.Hour)}
	plain, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got session
	if err := json.Unmarshal(plain, &got); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
