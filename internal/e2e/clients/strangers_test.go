package clients

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/store"
)

// siege is a service under attack by strangers with its public key, from some networks, on two
// replicas.
type siege struct {
	*apptest.Stack
	carrier  *apptest.Carrier
	networks int
	mu       sync.Mutex
	// requests of strangers so far: the nth comes from the nth network and goes to a replica in
	// turn
	asked   int
	refused []smtptest.Rule    // how the mail server refuses victims
	known   map[string]request // of known browsers, by recipient
}

// request asks for a code.
type request struct {
	who  func(*http.Request)
	more string
}

// asBrowser is a page of the app, wherever its person is.
func asBrowser(ip string) func(*http.Request) {
	return func(r *http.Request) {
		apptest.As(apptest.PublicKey)(r)
		r.Header.Set("X-Forwarded-For", ip)
	}
}

func browserChecks(s *apptest.Stack, ip, id, code string) apptest.Answer {
	s.Helper()
	return s.Post("/v1/verifications/"+id+"/check", fmt.Sprintf(`{"code":%q}`, code), asBrowser(ip))
}

func newSiege(t *testing.T, networks int) *siege {
	t.Helper()
	v := &siege{carrier: apptest.NewCarrier(t), networks: networks, known: map[string]request{}}
	v.Stack = apptest.OnRealParts(t).Write(fmt.Sprintf(`trusted_proxies: [127.0.0.1/32]
policies:
  default:
    - {name: minute, scope: recipient, limit: 1, window: 1s}
    - {name: hour, scope: recipient, limit: 5, window: 1h, reserve: 1}
    - {name: day, scope: recipient, limit: 10, window: 24h, reserve: 2}
sms:
  countries: [DE]
  carriers: [{name: rest, type: http, url: "%s/", body: "to={to}&text={text}", answer: {id: $.id, code: $.status, codes: {"0": accepted}}}]
apps:
  - {name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}
  - {name: another, keys: [{id: k1, kind: secret, sha256: %x}]}
`, v.carrier.URL, sha256.Sum256([]byte(apptest.PublicKey)), sha256.Sum256([]byte(apptest.AnotherKey)))).Start(2)
	return v
}

func channelOf(to string) string {
	if strings.HasPrefix(to, "+") {
		return "sms"
	}
	return "email"
}

func (v *siege) ask(replica int, to string, by request) apptest.Answer {
	v.Helper()
	return v.Do(replica, http.MethodPost, "/v1/verifications",
		fmt.Sprintf(`{"channel":%q,"to":%q%s}`, channelOf(to), to, by.more), by.who)
}

// byStranger asks from the next network through the next replica.
func (v *siege) byStranger(to string) apptest.Answer {
	v.Helper()
	v.mu.Lock()
	n := v.asked
	v.asked++
	v.mu.Unlock()
	return v.ask(n%2, to, request{asBrowser(fmt.Sprintf("10.%d.0.1", n%v.networks)), ""})
}

// ended waits until a send has an outcome, and returns it.
func (v *siege) ended(a apptest.Answer) (status string) {
	v.Helper()
	v.Is("a send", a, http.StatusAccepted)
	v.Await("an outcome", func() bool {
		status = v.Get("/v1/verifications/" + a.ID).Send.Status
		return status == "sent" || status == "failed"
	})
	return status
}

var texted = regexp.MustCompile(`\b\d{6}\b`)

// code is the newest code that the recipient was sent, of n.
func (v *siege) code(to string, n int) (code string) {
	v.Helper()
	if channelOf(to) == "email" {
		return v.CodeIn(v.AwaitMail(to, n)[n-1])
	}
	v.Await("a text message", func() bool {
		got := 0
		for _, form := range v.carrier.Asked() {
			if form.Get("to") == to {
				got, code = got+1, texted.FindString(form.Get("text"))
			}
		}
		return got >= n
	})
	return code
}

// knows makes a browser known to a recipient, by its first code.
func (v *siege) knows(n int, to string) {
	v.Helper()
	home := asBrowser(fmt.Sprintf("192.%d.%d.7", 1+n/250, n%250))
	a := v.ask(n%2, to, request{home, ""})
	v.Is("the first code of "+to, a, http.StatusAccepted)
	got := v.Do(n%2, http.MethodPost, "/v1/verifications/"+a.ID+"/check",
		fmt.Sprintf(`{"code":%q}`, v.code(to, 1)), home)
	v.Is("its check", got, http.StatusOK, got.Valid, got.Known != "")
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known[to] = request{home, `,"known":["` + got.Known + `"]`}
}

// getIn has the known browser of a recipient, the secret key and another app's send to it, each on
// a replica, with this outcome.
func (v *siege) getIn(what, to, want string) {
	v.Helper()
	for n, by := range []request{v.known[to], {apptest.As(apptest.APIKey), ""}, {apptest.As(apptest.AnotherKey), ""}} {
		var a apptest.Answer
		v.Await("the second of the rule minute", func() bool { a = v.ask(n%2, to, by); return a.BlockedBy != "minute" })
		if a.StatusCode != http.StatusAccepted {
			v.Fatalf("%s: caller %d: %d %s", what, n, a.StatusCode, a.Raw)
		}
		var status string
		v.Await("an outcome", func() bool {
			var now apptest.Answer
			if now = v.Get("/v1/verifications/"+a.ID, by.who); n == 0 {
				now = v.Get("/v1/verifications/" + a.ID)
			}
			status = now.Send.Status
			return status == "sent" || status == "failed"
		})
		if status != want {
			v.Errorf("%s: caller %d: %s, want %s", what, n, status, want)
		}
	}
}

// spellings is the attack A1: strangers ask for other spellings of a mailbox until the rule on
// spellings refuses them.
func (v *siege) spellings(name string) {
	v.Helper()
	to := name + "@gmail.com"
	n := 0
	for ; n < 40; n++ {
		if a := v.byStranger(fmt.Sprintf("%s+%d@gmail.com", name, n)); a.StatusCode == http.StatusTooManyRequests {
			// with the first code of the browser
			v.Is("strangers", a, http.StatusTooManyRequests, a.BlockedBy == "spellings", n == 19)
			break
		}
	}
	stranger := v.ask(0, to, request{apptest.As(apptest.APIKey), `,"trust":"stranger"`})
	v.Is("a back end for a stranger", stranger, http.StatusTooManyRequests, stranger.BlockedBy == "spellings")
	v.getIn("spellings", to, "sent")
}

// refuse makes the mail server refuse a victim for what we are, or take its mails again.
func (v *siege) refuse(to string, now bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	rules := []smtptest.Rule{}
	for _, r := range v.refused {
		if r.To != to {
			rules = append(rules, r)
		}
	}
	if now {
		rules = append(rules, smtptest.Rule{Stage: smtptest.Rcpt, To: to, Reply: "550 5.7.1 poor reputation"})
	}
	v.refused = rules
	v.MailRules(rules...)
}

// hammer has strangers' sends to a recipient fail until a rule refuses them. A failure may count a
// moment after it can be read.
func (v *siege) hammer(what, to, rule string, limit int) {
	v.Helper()
	n := 0
	a := v.byStranger(to)
	for ; a.StatusCode == http.StatusAccepted && n < limit+5; a = v.byStranger(to) {
		if got := v.ended(a); got != "failed" {
			v.Fatalf("%s: a stranger's send is %s", what, got)
		}
		n++
	}
	v.Is(fmt.Sprint(what, ": after ", n), a, http.StatusTooManyRequests, a.BlockedBy == rule, n >= limit)
}

// failures is the attack A2: strangers ask again and again while each send fails for a reason of
// ours.
func (v *siege) failures(name string) {
	v.Helper()
	to := name + "@example.com"
	v.refuse(to, true)
	// which counts before the rule backoff can, with the first code of the browser
	v.hammer("failures", to, "spellings", 19)
	v.getIn("failures, while the server refuses us", to, "failed")
	v.refuse(to, false)
	v.getIn("failures", to, "sent")
}

// pumping is the attack A3: strangers have a prefix paused by text messages to numbers that nobody
// has. Then they do as in A2.
func (v *siege) pumping(prefix string) {
	v.Helper()
	number := func(n int) string { return fmt.Sprintf("%s%08d", prefix, 20_000_000+n) }
	home := number(0)
	for n := range 24 {
		if got := v.ended(v.byStranger(number(1 + n))); got != "sent" {
			v.Fatalf("a stranger's text message is %s", got)
		}
	}
	watch := store.PrefixWatch{Sends: 20, Approved: 10, Within: time.Hour, TTL: time.Microsecond, Pause: time.Hour}
	started, err := v.Replicas[0].DB().PausePrefixes(v.Context(), watch) // as when their codes had expired
	apptest.Must(v.T, err)
	for _, p := range started {
		if p.Class != store.UnknownBrowser {
			v.Errorf("%s is paused for %s", p.Prefix, p.Class.Name())
		}
	}
	v.hammer("pumping", number(50), "backoff", 20)
	v.getIn("pumping", home, "sent")
	if a := v.ask(0, number(50), request{apptest.As(apptest.APIKey), ""}); v.ended(a) != "sent" {
		v.Error("the secret key does not reach the number that strangers hammered")
	}
	if a := v.byStranger(number(51)); v.ended(a) != "failed" {
		v.Error("a stranger's text message leaves")
	}
	var list struct {
		Prefixes []struct{ ID, Prefix, Class string }
	}
	page := v.Get("/v1/admin/prefixes?state=active", apptest.AsAdmin)
	apptest.Must(v.T, json.Unmarshal(page.Raw, &list))
	lifted := 0
	for _, p := range list.Prefixes {
		if !strings.HasPrefix(prefix, p.Prefix) {
			continue
		}
		a := v.ByAdmin(1, "/v1/admin/prefixes/lift", fmt.Sprintf(`{"id":%q,"reason":"ours"}`, p.ID))
		v.Is("lifted", a, http.StatusOK, p.Class == "unknown")
		lifted++
	}
	if lifted != 1 {
		v.Fatalf("%d pauses lifted: %s", lifted, page.Raw)
	}
	for _, n := range []int{52, 50} { // another number, and the one that they hammered
		var a apptest.Answer
		v.Await("strangers, once the pause is lifted",
			func() bool { a = v.byStranger(number(n)); return a.StatusCode == http.StatusAccepted })
		if v.ended(a) != "sent" {
			v.Error("a stranger's text message does not leave after the pause")
		}
	}
}

// What strangers use up, strangers go without: each of the three attacks, one after the other, from
// one network and from fifty. Strangers are refused; secret keys, known browsers and the other app
// get in throughout.
func TestStrangersUseUpTheirOwn(t *testing.T) {
	onEachSiege(t, func(v *siege) {
		v.spellings("one")
		v.failures("one")
		v.pumping("+49151")
	})
}

// The same, all at once, beside 200 people with known browsers and through secret keys, of whom
// nobody is refused.
func TestStrangersAtOnce(t *testing.T) {
	onEachSiege(t, func(v *siege) {
		const people = 200
		address := func(n int) string { return fmt.Sprintf("person-%d@example.org", n) }
		var known, all sync.WaitGroup
		for first := range 4 {
			known.Go(func() {
				for n := first; n < people/2; n += 4 {
					v.knows(1000+n, address(n))
				}
			})
		}
		known.Wait()
		apptest.Sleep(2 * time.Second) // the shortest rule has passed for each of them
		all.Go(func() { v.spellings("one") })
		all.Go(func() { v.failures("one") })
		all.Go(func() { v.pumping("+49151") })
		for first := range 2 {
			all.Go(func() {
				for n := first; n < people; n += 2 {
					by, ok := v.known[address(n)]
					if !ok {
						by = request{apptest.As(apptest.APIKey), ""}
					}
					if a := v.ask(n%2, address(n), by); a.StatusCode != http.StatusAccepted {
						v.Errorf("person %d: %d %s", n, a.StatusCode, a.Raw)
					}
				}
			})
		}
		all.Wait()
	})
}

func onEachSiege(t *testing.T, test func(v *siege)) {
	for _, networks := range []int{1, 50} {
		t.Run(fmt.Sprint(networks), func(t *testing.T) {
			t.Parallel()
			v := newSiege(t, networks)
			for n, to := range []string{"one@gmail.com", "one@example.com", "+4915120000000"} {
				v.knows(n, to)
			}
			test(v)
		})
	}
}
