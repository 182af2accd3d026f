package clients

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sendcode/internal/app/apptest"
)

// class is a class of callers, with what its requests have beside those of others.
type class string

const (
	secretKey  class = "a secret key"
	known      class = "a known browser"
	unknown    class = "an unknown browser"
	forUnknown class = "a back end for a stranger"
)

// number is a number that an operator wrote: so many sends of its purpose for all callers together,
// of which strangers leave the reserve.
type number struct {
	purpose, channel string
	to               func(n int) string // the nth recipient
	limit, reserve   int
}

// flood sends so many requests of each class of callers to each number, all at once and over all
// replicas. It returns how many of each number were admitted, by class, when all that were have an
// outcome: those of a spend cap are admitted if they reach the carrier.
func flood(s *apptest.Stack, numbers []number, tokens map[string]string,
	requests map[class]int) map[string]map[class]int {
	s.Helper()
	type asked struct {
		number number
		class  class
		id     string
	}
	var mu sync.Mutex
	var accepted []asked
	var all sync.WaitGroup
	for _, x := range numbers {
		for c, n := range requests {
			for range n {
				all.Go(func() {
					request := int(asking.Add(1))
					to, more, change := x.to(request), "", apptest.As(apptest.APIKey)
					switch c {
					case unknown, known:
						change = asBrowser(fmt.Sprintf("10.%d.%d.1", request/250%250, request%250))
					case forUnknown:
						more = `,"trust":"stranger"`
					}
					if c == known {
						to = x.to(0)
						more = fmt.Sprintf(`,"known":[%q]`, tokens[to])
					}
					body := fmt.Sprintf(`{"channel":%q,"to":%q,"purpose":%q%s}`, x.channel, to, x.purpose, more)
					a, err := s.At(s.Replicas[request%len(s.Replicas)].Base, http.MethodPost, "/v1/verifications",
						body, change)
					if err != nil || a.StatusCode != http.StatusAccepted &&
						(a.StatusCode != http.StatusTooManyRequests || a.RetryAfter <= 0) {
						s.Errorf("%s, %s: %d %s, %v", x.purpose, c, a.StatusCode, a.Raw, err)
					}
					if a.StatusCode == http.StatusAccepted {
						mu.Lock()
						defer mu.Unlock()
						accepted = append(accepted, asked{x, c, a.ID})
					}
				})
			}
		}
	}
	all.Wait()
	counts := map[string]map[class]int{}
	for _, x := range numbers {
		counts[x.purpose] = map[class]int{}
	}
	for _, a := range accepted {
		var got apptest.Answer
		s.Await("an outcome", func() bool {
			got = s.Look(a.id)
			return got.Send.Status != "queued" && got.Send.Status != "sending"
		})
		switch {
		case got.Send.Status == "sent":
			counts[a.number.purpose][a.class]++
		case got.Send.Reason != "spend_cap":
			s.Errorf("%s, %s: %s %s", a.number.purpose, a.class, got.Send.Status, got.Send.Reason)
		}
	}
	return counts
}

// asking counts the requests of floods, so that each has a recipient and a network of its own.
var asking atomic.Int64

func strangersOf(counts map[class]int) int {
	return counts[unknown] + counts[known] + counts[forUnknown]
}

// Numbers that an operator writes are never exceeded by all classes of callers together, and
// strangers leave the reserve: 1,000 requests at once of every class, on each kind of parts, on
// Redis and Postgres over two replicas.
func TestNoNumberIsExceeded(t *testing.T) {
	mailOf := func(n int) string { return fmt.Sprintf("person-%d@example.com", n) }
	numbers := []number{
		{"app", "email", mailOf, 40, 8}, // the default reserve
		{"global", "email", mailOf, 50, 5},
		{"country", "sms", func(n int) string { return fmt.Sprintf("+49151%08d", 20_000_000+n) }, 30, 10},
		{"spend", "sms", func(n int) string { return fmt.Sprintf("+43664%07d", 2_000_000+n) }, 20, 5},
	}
	everything := []number{{"own", "email", mailOf, 60, 12}} // the default reserve
	settings := func(carrier string) string {
		return fmt.Sprintf(`trusted_proxies: [127.0.0.1/32]
policies:
  own: [{name: own, scope: recipient, limit: 1000, window: 24h}]
  app: [{name: own, scope: recipient, limit: 1000, window: 24h}, {name: all, scope: app, limit: 40, window: 24h}]
  global: [{name: own, scope: recipient, limit: 1000, window: 24h}, {name: all, scope: global, limit: 50, window: 24h, reserve: 5}]
  country: [{name: own, scope: recipient, limit: 1000, window: 24h}, {name: all, scope: country, limit: 30, window: 24h, reserve: 10}]
purposes: {own: {policy: own}, app: {policy: app}, global: {policy: global}, country: {policy: country}, spend: {policy: own}}
apps:
  - {name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}
sms:
  countries: [AT, DE]
  carriers: [{name: rest, type: http, url: "%s/", body: "to={to}&text={text}", prices: {AT: 0.1, default: 0}}]
  spend: [{scope: global, per: month, limit: 2, reserve: 0.5}]
  unwatched: "+"
`, sha256.Sum256([]byte(apptest.PublicKey)), carrier)
	}
	start := func(s *apptest.Stack, more string) (*apptest.Carrier, map[string]string) {
		s.Helper()
		c := apptest.NewCarrier(s.T)
		s.Write(settings(c.URL) + more)
		if s.Start(1); s.Redis != nil {
			s.Start(1)
		}
		tokens := map[string]string{}
		for _, x := range numbers {
			to := x.to(0)
			if tokens[to] != "" {
				continue
			}
			a := s.Post("/v1/verifications", fmt.Sprintf(`{"channel":%q,"to":%q,"purpose":"own"}`, x.channel, to),
				asBrowser("192.0.2.7"))
			s.AwaitState(a.ID, "sent")
			var code string
			if x.channel == "email" {
				code = s.CodeIn(s.AwaitMail(to, 1)[0])
			} else {
				sent := c.Asked()
				code = regexp.MustCompile(`\b\d{6}\b`).FindString(sent[len(sent)-1].Get("text"))
			}
			checked := browserChecks(s, "192.0.2.7", a.ID, code)
			s.Is("the code of a browser that becomes known", checked, http.StatusOK, checked.Known != "")
			tokens[to] = checked.Known
		}
		return c, tokens
	}
	apptest.OnEach(t, func(s *apptest.Stack) {
		carrier, tokens := start(s, "")
		first := flood(s, numbers, tokens, map[class]int{known: 45, unknown: 45, forUnknown: 45})
		second := flood(s, numbers, tokens, map[class]int{secretKey: 30, known: 30, unknown: 30, forUnknown: 30})
		for _, x := range numbers {
			strangers := x.limit - x.reserve
			if x.purpose == "spend" {
				strangers-- // the text by which a browser became known
			}
			if got := strangersOf(first[x.purpose]); got != strangers {
				t.Errorf("%s: strangers alone have %d, want %d: %v", x.purpose, got, strangers, first[x.purpose])
			}
			if got := second[x.purpose]; got[secretKey] != x.reserve || strangersOf(got) != 0 {
				t.Errorf("%s: then secret keys have %d, want %d, and strangers %d more", x.purpose, got[secretKey],
					x.reserve, strangersOf(got))
			}
		}
		dear := 0
		for _, form := range carrier.Asked() {
			if strings.HasPrefix(form.Get("to"), "+43") {
				dear++
			}
		}
		if dear != 20 {
			t.Errorf("the carrier has %d messages of 0.1, of a cap of 2", dear)
		}
	})
	t.Run("breaker", func(t *testing.T) {
		apptest.OnEach(t, func(s *apptest.Stack) {
			_, tokens := start(s, "breaker: {limit: 60, window: 24h}\n")
			first := flood(s, everything, tokens,
				map[class]int{secretKey: 10, known: 70, unknown: 70, forUnknown: 70})["own"]
			second := flood(s, everything, tokens,
				map[class]int{secretKey: 70, known: 10, unknown: 10, forUnknown: 10})["own"]
			strangers := 3 + strangersOf(first) // with the messages by which browsers became known
			if sum := strangers + first[secretKey]; first[secretKey] != 10 || strangers > 48 || sum < 48 {
				t.Errorf("strangers have %d of 48, beside %d of secret keys", strangers, first[secretKey])
			}
			if sum := strangers + first[secretKey] + second[secretKey] + strangersOf(second); sum != 60 ||
				strangersOf(second) != 0 {
				t.Errorf("%d sends in all, of a limit of 60: %v, then %v", sum, first, second)
			}
			refused := s.Post("/v1/verifications", `{"channel":"email","to":"last@example.com","purpose":"own"}`)
			s.Is("one more of a secret key", refused, http.StatusTooManyRequests, refused.BlockedBy == "breaker")
		})
	})
}
