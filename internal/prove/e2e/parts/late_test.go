//go:build nightly

// Only make nightly runs these tests, of minutes: internal/deliver/outbox and internal/verify/verification hold in virtual
// time what is refused, and internal/deliver/delivery/smtp how many connections there are.

package parts

import (
	"crypto/sha256"
	"flag"
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

var swamped = flag.Duration("parts.swamped", 70*time.Second, "how long ten times as many sends come as a mail server takes")

// minuteCodes are codes that live for a minute, and rules that one send of each recipient meets.
const minuteCodes = `policies: {default: [{name: hour, scope: recipient, limit: 3, window: 1h}]}
purposes: {default: {ttl: 1m}}
trusted_proxies: [127.0.0.1/32]
apps: [{name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}]
`

// swamp is sends to a mail server that takes fewer, each to a recipient of its own, at two replicas in turn.
type swamp struct {
	*apptest.Stack
	replicas []*apptest.Process
	db       *pgx.Conn
	tokens   chan struct{} // the mail server takes a mail for each

	mu       sync.Mutex
	accepted map[string]time.Time // when they were asked for, by recipient
	refused  [2][]string          // of secret keys and of strangers
	first    [2]time.Time         // when one was refused first
	last     [2]time.Time
	begin time.Time
	cut      int // requests without an answer
}

func newSwamp(s *apptest.Stack, perSecond int) *swamp {
	w := &swamp{Stack: s.Write(fmt.Sprintf(minuteCodes, sha256.Sum256([]byte(apptest.PublicKey)))), tokens: make(chan struct{}), accepted: map[string]time.Time{}}
	s.MailRules(smtptest.Rule{Stage: smtptest.Body, Until: w.tokens})
	go func() {
		for ticks := time.NewTicker(time.Second / time.Duration(perSecond)); ; <-ticks.C {
			select {
			case w.tokens <- struct{}{}:
			case <-s.Context().Done():
				ticks.Stop()
				return
			}
		}
	}()
	for range 2 {
		w.replicas = append(w.replicas, s.Spawn())
	}
	var err error
	w.db, err = pgx.Connect(s.Context(), s.Postgres.URL())
	apptest.Must(s.T, err)
	return w
}

// comes sends so many requests a second for a while, each fourth one as a stranger.
func (w *swamp) comes(perSecond int, lasts time.Duration) {
	w.begin = time.Now()
	ticks := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticks.Stop()
	var all sync.WaitGroup
	for n := range int(lasts.Seconds()) * perSecond {
		<-ticks.C
		all.Go(func() { w.ask(n) })
	}
	all.Wait()
}

func (w *swamp) ask(n int) {
	to, class, at := fmt.Sprintf("swamp%d@example.com", n), 0, time.Now()
	change := []func(*http.Request){apptest.WithKey(fmt.Sprintf("swamped-request-%06d", n))}
	if n%4 == 0 {
		class = 1
		change = append(change, apptest.As(apptest.PublicKey), func(r *http.Request) {
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.18.%d.%d", n/256, n%256))
		})
	}
	w.mu.Lock()
	base := w.replicas[n/2%2].Base
	w.mu.Unlock()
	a, err := w.At(base, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, change...)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch body := string(a.Raw); {
	case err != nil:
		w.cut++
	case a.StatusCode == http.StatusAccepted:
		w.accepted[to] = at
	case a.StatusCode != http.StatusServiceUnavailable || a.Problem() != "unavailable" || a.Header.Get("Retry-After") == "" ||
		!strings.Contains(body, `"slow":"email"`) || !strings.Contains(body, `"may_have_counted":false`):
		w.Errorf("%d %s", a.StatusCode, body)
	default:
		w.refused[class] = append(w.refused[class], to)
		if w.first[class].IsZero() {
			w.first[class] = at
		}
		w.last[class] = at
	}
}

// read reads a number from the database.
func (w *swamp) read(query string) (n int) {
	w.Helper()
	apptest.Must(w.T, w.db.QueryRow(w.Context(), query).Scan(&n))
	return n
}

// A mail server takes a tenth of what comes. No accepted send's code ends before its mail arrives: none is older than
// half of its life then. What is refused makes no mail and no row, and counts nowhere.
func TestMailServerTakesFewerUnderLoad(t *testing.T) {
	for _, f := range forms[1:] {
		for name, c := range map[string]struct {
			takes, come int // a second
			lasts       time.Duration
		}{
			"2 of 20 a second": {2, 20, 50 * time.Second},
			"5 of 50 a second": {5, 50, *swamped},
		} {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newSwamp(f.open(t), c.takes)
				w.comes(c.come, c.lasts)
				w.judge(30 * time.Second)
			})
		}
	}
}

// judge waits until all mails are out, and judges them.
func (w *swamp) judge(oldest time.Duration) {
	w.Helper()
	w.Await("every send to end", func() bool { return w.read(`SELECT count(*) FROM outbox`) == 0 })
	var ages []time.Duration
	for _, m := range w.Mails() {
		if at, ok := w.accepted[m.To]; ok {
			ages = append(ages, m.At.Sub(at).Round(time.Millisecond))
			n := 0
			fmt.Sscanf(m.To, "swamp%d@", &n)
			fmt.Printf("DBG %s r%d s%v asked %6.2f age %6.2f arrived %6.2f\n", m.To, n/2%2, n%4 == 0, at.Sub(w.begin).Seconds(), m.At.Sub(at).Seconds(), m.At.Sub(w.begin).Seconds())
		} else if w.cut == 0 {
			w.Errorf("a mail to %s, which was refused", m.To)
		}
	}
	slices.Sort(ages)
	fmt.Printf("%s: %d accepted, %d mails, p50 %v, p90 %v, oldest %v; refused %d, of strangers %d; first %v, of strangers %v; cut %d; by reason: expired %d, others %d\n", w.Name(), len(w.accepted),
		len(ages), ages[len(ages)/2], ages[len(ages)*9/10], ages[len(ages)-1], len(w.refused[0]), len(w.refused[1]), w.first[0].Format(instants), w.first[1].Format(instants), w.cut,
		w.read(`SELECT count(*) FROM sends WHERE reason = 'expired'`), w.read(`SELECT count(*) FROM sends WHERE status <> 'sent' AND reason <> 'expired'`))
	fmt.Println(w.read(`SELECT count(*) FROM sends`), w.read(`SELECT count(*) FROM verifications`), w.read(`SELECT count(*) FROM refusals`), w.read(`SELECT count(*) FROM idempotency_keys`))
	if w.Redis != nil {
		keys, _ := w.RedisClient().Keys(w.Context(), "*").Result()
		fmt.Println(len(keys), keys[:min(5, len(keys))])
	}
}
