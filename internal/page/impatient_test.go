package page_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/delivery"
	"sendcode/internal/page"
	"sendcode/internal/page/pagetest"
	"sendcode/internal/server"
	"sendcode/internal/servertest"
	vtest "sendcode/internal/verification/verificationtest"
)

var (
	impatient     = flag.Int("page.users", 500, "how many impatient users there are")
	impatientSeed = flag.Uint64("page.seed", 1, "of the first group of impatient users")
)

// group is how many users share a process, its log and its limiter.
const group = 250

// The delay of a mail is log-normal, with a median of 8 s and ten minutes at the 99th percentile.
const (
	medianDelay = 8 * time.Second
	slowDelay   = 10 * time.Minute
	at99        = 2.3263 // the standard normal distribution's 99th percentile
)

// TestImpatientUsers has people sign in on the page, over the real use cases, limiter, log and outbox. Every other group has the default
// policy. The others have its rule of a minute alone, so that people resend until their code is about to expire, and get another one.
//
// A person has two tabs of one browser. The first asks for a code; the second is opened within a minute. From then on the person
// presses "Send again" in one tab or the other as soon as its button is active, and goes on until the code is typed. Each tab shows what
// it was last answered, which may be old. For half of the people each mail is delayed by itself, for the others all mails by the same
// time, as by one slow mail server. The first mail is noticed after up to 10 s, and its code typed within 3 to 12 s into either tab,
// whatever has come meanwhile. In 3 % of the entries a finger slips: two digits change places, one is wrong or one is missing. Then the
// same code is typed again. A person leaves after a quarter of an hour.
//
// Mail that arrives before its code expires is in time. Of these people, all but 0.5 % get in with the first code that they type, and no
// right copy of a code from a mail is refused while the code lives.
func TestImpatientUsers(t *testing.T) {
	var all outcome
	t.Run("groups", func(t *testing.T) {
		for n := uint64(0); n < uint64(*impatient+group-1)/group; n++ {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				rules := 3
				if n%2 == 1 {
					rules = 1
				}
				all.add(aGroup(t, *impatientSeed+n, rules, min(group, *impatient-int(n)*group)))
			})
		}
	})
	t.Logf("%d people, %d mails; mail in time for %d, of whom %d (%.3f %%) got in with the first code that they typed; %d had typed a code after "+
		"a resend; %d slips; %d right codes refused", all.users, all.sends, all.inTime, all.gotIn, 100*float64(all.gotIn)/float64(all.inTime),
		all.resent, all.slips, len(all.refused))
	if all.inTime < all.users*9/10 || all.resent < all.users/20 || all.slips < all.users/100 {
		t.Errorf("the people are not as described")
	}
	if len(all.refused) > 0 {
		t.Errorf("%d codes were refused that were typed as the mail had them and had not expired. The first: %s", len(all.refused), all.refused[0])
	}
	if float64(all.gotIn) < 0.995*float64(all.inTime) {
		t.Errorf("%d of %d got in with their first code", all.gotIn, all.inTime)
	}
}

// A resend near the end of a code opens another verification. The mail with the first code may come after it, and be typed into a tab
// that shows either.
func TestACodeThatComesAfterTheNext(t *testing.T) {
	for tab, shows := range []string{"the new verification", "the old one"} {
		t.Run(shows, func(t *testing.T) {
			inPage(t, 3, func(t *testing.T, post *postman, e http.Handler) {
				p := newPerson(t, e, 1, 0)
				post.people[p.address] = p
				p.delay = 0
				p.look(0, "")
				p.submit(0, "send", "to", p.address)
				first := <-p.inbox
				p.look(1, "")
				time.Sleep(8*time.Minute + 30*time.Second)
				p.submit(0, "again")
				if second := <-p.inbox; second == first {
					t.Fatal("the resend carries the same code")
				}
				p.submit(tab, "check", "code", p.slip(first))
				p.submit(tab, "check", "code", first)
				if !strings.Contains(p.tabs[tab], `data-kind="approved"`) {
					t.Errorf("the first code is not taken: %s", heading.FindString(p.tabs[tab]))
				}
			})
		})
	}
}

// outcome counts people, and what happened to them.
type outcome struct {
	sync.Mutex
	users, inTime, gotIn, resent, slips, sends int
	refused                                    []string // codes typed as the mail had them that were not taken, though they had not expired
}

func (o *outcome) add(other *outcome) {
	o.Lock()
	defer o.Unlock()
	o.users, o.inTime, o.gotIn = o.users+other.users, o.inTime+other.inTime, o.gotIn+other.gotIn
	o.resent, o.slips, o.sends, o.refused = o.resent+other.resent, o.slips+other.slips, o.sends+other.sends, append(o.refused, other.refused...)
}

// aGroup lets the people of a seed come over ten minutes, under the first of the default rules.
func aGroup(t *testing.T, seed uint64, rules, people int) *outcome {
	sum := &outcome{}
	inPage(t, rules, func(t *testing.T, post *postman, e http.Handler) {
		var living sync.WaitGroup
		for i := range people {
			p := newPerson(t, e, seed, i)
			post.people[p.address] = p
		}
		for _, p := range post.people {
			living.Go(func() { p.lives(); sum.add(&p.outcome) })
		}
		living.Wait()
		time.Sleep(time.Hour) // for mails that are still under way
	})
	return sum
}

// inPage runs a page in a bubble, with the real parts behind it, under the first of the default rules.
func inPage(t *testing.T, rules int, test func(*testing.T, *postman, http.Handler)) {
	servertest.Bubble(t, func(t *testing.T) {
		r := vtest.NewRig(t, vtest.MinuteTick(func(s *vtest.Settings) {
			for name, p := range s.Purposes {
				p.Policy.Rules = p.Policy.Rules[:rules]
				s.Purposes[name] = p
			}
		}))
		post := &postman{people: map[string]*person{}}
		r.Svc = r.Replica(post)
		r.Start()
		logger, proxies := slog.New(slog.DiscardHandler), []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		e := server.New(server.Config{Logger: logger, TrustedProxies: proxies})
		page.New(page.Config{
			AppPage: page.AppPage{App: "shop", Title: "Shop"}, Code: code.Shape{Alphabet: code.Digits, Length: 6},
			Codes: r.Svc.Service, Cookies: r.Settings.Vault.Ring, Logger: logger,
		}).Register(e)
		test(t, post, e)
		r.Quit()
	})
}

// postman is a mail server that accepts each mail at once, and delivers it after its delay.
type postman struct{ people map[string]*person }

func (m *postman) Send(_ context.Context, mail delivery.Message) (delivery.Receipt, error) {
	p := m.people[mail.To]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sends++
	delay := p.delay
	if !p.oneDelay {
		delay = delayOf(p.post)
	}
	time.AfterFunc(delay, func() { p.inbox <- vtest.CodeIn(mail) })
	return delivery.Receipt{Provider: "mx.example", Code: "250"}, nil
}

func delayOf(r *rand.Rand) time.Duration {
	spread := math.Log(float64(slowDelay)/float64(medianDelay)) / at99
	return time.Duration(float64(medianDelay) * math.Exp(spread*r.NormFloat64()))
}

// person has a browser with two tabs.
type person struct {
	*testing.T
	*pagetest.Visitor
	outcome
	address string
	tabs    [2]string // what each shows; empty: it is not open
	due     [2]time.Time
	inbox   chan string
	whims   *rand.Rand

	mu       sync.Mutex
	post     *rand.Rand
	oneDelay bool
	delay    time.Duration
}

func newPerson(t *testing.T, page http.Handler, seed uint64, n int) *person {
	p := &person{
		T: t, Visitor: pagetest.NewVisitorOf(page), inbox: make(chan string, 100), address: fmt.Sprintf("person%d.%d@example.com", seed, n),
		whims: rand.New(rand.NewPCG(seed, uint64(2*n))), post: rand.New(rand.NewPCG(seed, uint64(2*n+1))),
	}
	p.Header.Set("X-Forwarded-For", fmt.Sprintf("203.%d.%d.7", n/250, n%250))
	p.Header.Set("X-Fragment", "card")
	p.users, p.oneDelay, p.delay = 1, n%2 == 0, delayOf(p.post)
	return p
}

// within is a random time.
func (p *person) within(from, to time.Duration) time.Duration {
	return from + time.Duration(p.whims.Int64N(int64(to-from)))
}

// lives asks for a code, and presses on until the code of the first mail that is noticed is typed.
func (p *person) lives() {
	time.Sleep(p.within(0, 10*time.Minute))
	p.look(0, "")
	p.submit(0, "send", "to", p.address)
	expires, second, leaves := time.Now().Add(10*time.Minute), time.After(p.within(time.Second, time.Minute)), time.After(15*time.Minute)
	inbox, mailed, typed := p.inbox, "", (<-chan time.Time)(nil)
	for {
		tab, wait := p.next()
		select {
		case <-second:
			p.look(1, "")
		case <-time.After(wait):
			p.submit(tab, "again")
		case mailed = <-inbox:
			if time.Now().Before(expires) {
				p.inTime++
			}
			inbox, leaves = nil, nil
			typed = time.After(p.within(0, 10*time.Second) + p.within(3*time.Second, 12*time.Second))
		case <-typed:
			p.enters(mailed, expires)
			return
		case <-leaves:
			return
		}
	}
}

// enters types a code, and types it again after a slip.
func (p *person) enters(mailed string, expires time.Time) {
	for range 5 {
		tab, entry := p.whims.IntN(2), mailed
		if p.tabs[1] == "" {
			tab = 0
		}
		slips := p.whims.IntN(100) < 3
		if slips {
			p.slips++
			entry = p.slip(mailed)
		}
		late := !time.Now().Before(expires)
		there := p.submit(tab, "check", "code", entry)
		switch in := strings.Contains(p.tabs[tab], `data-kind="approved"`); {
		case in:
			p.gotIn++
			if p.sends > 1 {
				p.resent++
			}
			return
		case !late && (!slips || !there):
			p.refused = append(p.refused, fmt.Sprintf("%s typed %s into tab %d, which then shows %s", p.address, entry, tab, heading.FindString(p.tabs[tab])))
			return
		case late: // and perhaps no field is left for the code
			return
		}
		time.Sleep(p.within(3*time.Second, 12*time.Second))
	}
}

// next is the tab whose button can be pressed first, and when.
func (p *person) next() (tab int, wait time.Duration) {
	if p.tabs[1] != "" && (p.due[1].Before(p.due[0]) || p.due[1].Equal(p.due[0]) && p.whims.IntN(2) == 0) {
		tab = 1
	}
	return tab, max(0, time.Until(p.due[tab]))
}

// slip is a code as a finger types it that slipped.
func (p *person) slip(right string) string {
	digits, at := []byte(right), p.whims.IntN(len(right)-1)
	switch p.whims.IntN(3) {
	case 0:
		digits[at], digits[at+1] = digits[at+1], digits[at]
	case 1:
		return string(slices.Delete(digits, at, at+1))
	}
	if string(digits) == right {
		digits[at] = '0' + (digits[at]-'0'+1)%10
	}
	return string(digits)
}

// toTheCode leads from a card of a rule that is spent to the field for the code.
const toTheCode = "?view=code"

var (
	heading = regexp.MustCompile(`(?s)<h1.*?</h1>.{0,400}`)
	counted = regexp.MustCompile(`class="count" aria-hidden="true" data-wait="(\d+)"`)
)

// look loads the page in a tab.
func (p *person) look(tab int, query string) { p.show(tab)(p.Get(query)) }

// submit posts a form as the tab has it, and shows what follows. It reports whether the tab has that form, or leads to it.
func (p *person) submit(tab int, act string, fields ...string) bool {
	has := func() bool { return strings.Contains(p.tabs[tab], `name="act" value="`+act+`"`) }
	if !has() && strings.Contains(p.tabs[tab], toTheCode) { // a rule is spent
		p.look(tab, toTheCode)
	}
	if !has() {
		return false
	}
	p.show(tab)(p.Submit(p.tabs[tab], act, fields...))
	return true
}

// show takes in a card: its button is active when the wait that it tells is over.
func (p *person) show(tab int) func(card string, err error) {
	return func(card string, err error) {
		if err != nil {
			p.Fatal(err)
		}
		p.tabs[tab], p.due[tab] = card, time.Now()
		if wait := counted.FindStringSubmatch(card); wait != nil {
			ms, _ := strconv.Atoi(wait[1])
			p.due[tab] = time.Now().Add(time.Duration(ms) * time.Millisecond)
		}
	}
}
