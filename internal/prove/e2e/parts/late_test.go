//go:build nightly

// Only `make nightly` runs these tests, which take minutes. In virtual time,
// internal/deliver/outbox and internal/verify/verification test which requests are refused, and
// internal/deliver/delivery/smtp how many connections are opened.

package parts

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
)

// minuteCodes makes codes valid for a minute.
const minuteCodes = `policies: {default: [{name: hour, scope: recipient, limit: 3, window: 1h}]}
purposes: {default: {ttl: 1m}}
trusted_proxies: [127.0.0.1/32]
apps: [{name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}]
`

// slowMailLoad sends more codes than a slow mail server takes, each to another recipient, through
// the replicas in turn.
type slowMailLoad struct {
	*apptest.Stack
	db *pgx.Conn

	mu        sync.Mutex
	replicas  []*apptest.Process
	accepted  map[string]int // the accepted sends, by recipient: 0 for a known person, 1 for a stranger
	strangers int            // how many of the accepted sends are strangers'
	refused   [2][]string    // the refused recipients of secret keys, and those of strangers
	others    int            // requests without an answer, and other refusals
}

func newSlowMailLoad(s *apptest.Stack, replicas int, rules ...smtptest.Rule) *slowMailLoad {
	load := &slowMailLoad{Stack: s, accepted: map[string]int{}}
	s.MailRules(rules...)
	for range replicas {
		load.replicas = append(load.replicas, s.Spawn())
	}
	var err error
	load.db, err = pgx.Connect(s.Context(), s.Postgres.URL())
	apptest.Must(s.T, err)
	return load
}

// perSecond returns a rule that bounds how many mails the mail server accepts in a second, over all
// its connections.
func perSecond(s *apptest.Stack, mails int) smtptest.Rule {
	tokens := make(chan struct{})
	go func() {
		ticks := time.NewTicker(time.Second / time.Duration(mails))
		defer ticks.Stop()
		for {
			<-ticks.C
			select {
			case tokens <- struct{}{}:
			case <-s.Context().Done():
				return
			}
		}
	}()
	return smtptest.Rule{Stage: smtptest.Body, Until: tokens}
}

// sendRequests sends n requests, perSecond of them in a second. If strangers is true, every fourth
// request is a stranger's.
func (s *slowMailLoad) sendRequests(n, perSecond int, strangers bool) {
	ticks := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticks.Stop()
	var all sync.WaitGroup
	for n := range n {
		<-ticks.C
		all.Go(func() { s.ask(n, strangers && n%4 == 0) })
	}
	all.Wait()
}

func (s *slowMailLoad) ask(n int, stranger bool) {
	to, from := fmt.Sprintf("swamp%d@example.com", n), fmt.Sprintf("198.18.%d.%d", n/256, n%256)
	change, more, class := []func(*http.Request){apptest.WithKey(fmt.Sprintf("swamped-request-%06d", n))}, known, 0
	switch {
	case stranger && n%8 == 0: // at a back end's form
		class, more = 1, fmt.Sprintf(`,"client_ip":%q`, from)
	case stranger:
		class, more = 1, ""
		change = append(change, apptest.As(apptest.PublicKey), func(r *http.Request) { r.Header.Set("X-Forwarded-For", from) })
	}
	s.mu.Lock()
	base := s.replicas[(n/4+n)%len(s.replicas)].Base
	s.mu.Unlock()
	a, err := s.At(base, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"`+more+`}`, change...)
	s.mu.Lock()
	defer s.mu.Unlock()
	body := string(a.Raw)
	switch {
	case err == nil && a.StatusCode == http.StatusAccepted:
		s.accepted[to] = class
		s.strangers += class
	case err != nil || a.StatusCode == http.StatusServiceUnavailable && !strings.Contains(body, `"slow"`):
		s.others++
	case a.StatusCode != http.StatusServiceUnavailable || a.Problem() != "unavailable" || a.Header.Get("Retry-After") == "" ||
		!strings.Contains(body, `"slow":"email"`) || !strings.Contains(body, `"may_have_counted":false`):
		s.Errorf("%d %s", a.StatusCode, body)
	default:
		s.refused[class] = append(s.refused[class], to)
	}
}

func (s *slowMailLoad) read(query string) (n int) {
	s.Helper()
	apptest.Must(s.T, s.db.QueryRow(s.Context(), query).Scan(&n))
	return n
}

// arrived waits until every send has ended. It returns the ages of the accepted codes of known
// people when their mails arrived, the lowest age first.
func (s *slowMailLoad) arrived() []time.Duration {
	s.Helper()
	s.Await("every send to end", func() bool { return s.read(`SELECT count(*) FROM outbox`) == 0 })
	rows, err := s.db.Query(s.Context(), `SELECT id::text, logged_at FROM sends`)
	apptest.Must(s.T, err)
	began, id, at := map[string]time.Time{}, "", time.Time{}
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error { began[id] = at; return nil })
	apptest.Must(s.T, err)
	var ages [2][]time.Duration // of known people, and of strangers
	first := map[string]bool{}
	for _, m := range s.Mails() {
		id, _, _ := strings.Cut(m.ID, ".")
		if class, accepted := s.accepted[m.To]; accepted && !first[m.To] {
			first[m.To] = true
			ages[class] = append(ages[class], m.At.Sub(began[id]).Round(time.Millisecond))
		}
		if slices.Contains(s.refused[0], m.To) || slices.Contains(s.refused[1], m.To) {
			s.Errorf("a mail to %s, which was refused", m.To)
		}
	}
	expired := s.read(`SELECT count(*) FROM sends WHERE reason = 'expired'`)
	if lost := len(s.accepted) - len(first) - expired; lost != 0 || len(ages[0]) == 0 {
		s.Fatalf("of %d accepted sends %d have neither a mail nor expired", len(s.accepted), lost)
	}
	for class, who := range []string{"known people", "strangers"} {
		if list := ages[class]; len(list) > 0 {
			slices.Sort(list)
			fmt.Printf("%s, %s: %d mails, after %v, %v and at most %v; %d refused; of all %d expired, %d others\n",
				s.Name(), who, len(list), list[len(list)/2], list[len(list)*9/10], list[len(list)-1],
				len(s.refused[class]), expired, s.others)
		}
	}
	return ages[0]
}

// The mail server accepts only a part of the mails. No accepted code of a known person ends before
// its mail arrives. The service accepts these codes if it expects that they will be at most half of
// their life old then, so half of them are not older, and nine of ten not much older. Strangers'
// mails, which give way to each other, may come later (docs/decisions/0031-messages-give-way.md). A
// refused request makes no mail and no row, and counts nowhere.
func TestMailServerTakesFewerUnderLoad(t *testing.T) {
	// Nine of ten codes may wait longer than half of their life by room, for the mails before the
	// first estimate, or by roomAfterDeath, for the mails that a dead replica held.
	const halfLife, room, roomAfterDeath, busyMachine = 30 * time.Second, 15 * time.Second, 20 * time.Second, 5 * time.Second
	for _, f := range forms[1:] {
		for name, c := range map[string]struct {
			takes, come int // mails a second, requests a second
			lasts       time.Duration
			disturb     func(w *slowMailLoad)
		}{
			"2 of 20 a second": {takes: 2, come: 20, lasts: 50 * time.Second},
			"a replica dies": {takes: 3, come: 20, lasts: 50 * time.Second, disturb: func(w *slowMailLoad) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.replicas[0].Kill()
				w.replicas = w.replicas[1:]
			}},
			"Redis restarts": {takes: 3, come: 20, lasts: 50 * time.Second, disturb: func(w *slowMailLoad) {
				if w.Redis != nil {
					w.Redis.Stop()
					apptest.Must(w.T, w.Redis.Start())
				}
			}},
			"it is quick again": {takes: 3, come: 20, lasts: 50 * time.Second, disturb: func(w *slowMailLoad) {
				w.MailRules()
				w.Cleanup(func() {
					if n := len(w.accepted); n < 400 { // 500 of the 1,000 requests come after MailRules
						w.Errorf("%d accepted", n)
					}
				})
			}},
		} {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := f.open(t).Write(fmt.Sprintf(minuteCodes, sha256.Sum256([]byte(apptest.PublicKey))))
				w := newSlowMailLoad(s, 2, perSecond(s, c.takes))
				var disturbed sync.WaitGroup
				if c.disturb != nil {
					disturbed.Go(func() {
						sleep(t.Context(), c.lasts/2)
						c.disturb(w)
					})
				}
				w.sendRequests(int(c.lasts.Seconds())*c.come, c.come, true)
				disturbed.Wait()
				ages := w.arrived()
				if age := ages[len(ages)/2]; age > halfLife+busyMachine {
					t.Errorf("half of the codes are %v old, or older", age)
				}
				most := halfLife + room
				if len(w.replicas) < 2 {
					most = halfLife + roomAfterDeath
				}
				if age := ages[len(ages)*9/10]; age > most {
					t.Errorf("a tenth of the codes is %v old, or older", age)
				}
				if n := w.read(`SELECT count(*) FROM sends s JOIN verifications v ON v.id = s.verification_id
WHERE s.reason = 'expired' AND v.class = ''`); n > 0 {
					t.Errorf("%d of known people expired", n)
				}
				rows := w.read(`SELECT count(*) FROM sends`)
				if more := rows - len(w.accepted); more < 0 || more > w.others || rows != w.read(`SELECT count(*) FROM verifications`) ||
					w.read(`SELECT count(*) FROM refusals`) > 0 || min(len(w.refused[0]), len(w.refused[1])) == 0 ||
					c.disturb == nil && w.others > rows/20 {
					t.Errorf("%d rows, of %d accepted sends; %d others", rows, len(w.accepted), w.others)
				}
				w.countedNowhere(c.disturb == nil)
			})
		}
	}
}

// countedNowhere asks for the quota of every tenth refused recipient, and fails the test if a send
// counts there. If all is true, it also fails if Redis has more events than the accepted sends
// need.
func (s *slowMailLoad) countedNowhere(all bool) {
	s.Helper()
	if s.Redis != nil && all {
		redis, events := s.RedisClient(), 0
		keys, err := redis.Keys(s.Context(), "*").Result()
		apptest.Must(s.T, err)
		for _, key := range keys { // skips the heartbeat and keys without events
			if redis.Type(s.Context(), key).Val() == "zset" && !strings.HasSuffix(key, "{written-by}") {
				events += int(redis.ZCard(s.Context(), key).Val())
			}
		}
		if want := len(s.accepted) + 3*s.strangers; events > want { // a stranger's send has up to three more, such as for its network
			s.Errorf("Redis has %d events, want %d", events, want)
		}
	}
	for n, to := range slices.Concat(s.refused[:]...) {
		if n%10 > 0 {
			continue
		}
		a, err := s.At(s.replicas[0].Base, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+to+`"}`)
		apptest.Must(s.T, err)
		if len(a.Quota.Rules) == 0 || !a.Quota.Allowed || a.Quota.Rules[0].Remaining != a.Quota.Rules[0].Limit {
			s.Fatalf("%s was refused, and has %s", to, a.Raw)
		}
	}
}

// 2,000 sends come within 3 s, and the mail server needs 300 ms for each mail. None of the sends is
// refused because its mail would go out too late.
func TestSpikeUnderLoad(t *testing.T) {
	w := newSlowMailLoad(apptest.OnOwnPostgres(t), 1, smtptest.Rule{Stage: smtptest.Body, Delay: 300 * time.Millisecond})
	began := time.Now()
	w.sendRequests(2000, 667, false)
	came := time.Since(began)
	w.arrived()
	mails := w.Mails()
	fmt.Printf("%d accepted within %v; the last mail after %v\n", len(w.accepted), came, mails[len(mails)-1].At.Sub(began))
	if len(w.refused[0]) > 0 || len(w.accepted)+w.others != 2000 || len(w.accepted) < 1000 {
		t.Errorf("%d refused, %d accepted", len(w.refused[0]), len(w.accepted))
	}
}
