package parts

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/run/app/apptest"
	"sendcode/internal/store"
)

// flood sends requests at a constant rate, whether or not earlier requests are answered, and
// records the answers.
type flood struct {
	*apptest.Stack
	client http.Client

	sent                              int // how many requests were sent
	Accepted, Limited, Shed, Unserved atomic.Int64

	mu     sync.Mutex
	shedIn []time.Duration // how long the refusals took
}

func newFlood(s *apptest.Stack) *flood {
	transport := &http.Transport{MaxIdleConnsPerHost: 4096}
	s.Cleanup(transport.CloseIdleConnections)
	return &flood{Stack: s, client: http.Client{Transport: transport}}
}

// wave sends rate requests a second for a while, each with an Idempotency-Key, and waits for the
// answers. It returns how many requests were accepted. One of ten requests is for the recipient of
// an earlier request. A busy machine sends fewer requests a second.
func (f *flood) wave(rate int, lasts time.Duration) (accepted int64) {
	before := f.Accepted.Load()
	ticks := time.NewTicker(time.Second / time.Duration(rate))
	defer ticks.Stop()
	var all sync.WaitGroup
	for range int(lasts.Seconds() * float64(rate)) {
		<-ticks.C
		recipient := f.sent
		if f.sent++; f.sent%10 == 0 {
			recipient = f.sent / 10
		}
		n := f.sent
		all.Go(func() { f.ask(n, recipient) })
	}
	all.Wait()
	return f.Accepted.Load() - before
}

// ask sends request n with a new Idempotency-Key.
func (f *flood) ask(n, recipient int) {
	req, err := http.NewRequest(http.MethodPost, f.Replicas[0].Base+"/v1/verifications",
		strings.NewReader(fmt.Sprintf(`{"channel":"email","to":"flood%d@example.com"`+known+`}`, recipient)))
	apptest.Must(f.T, err)
	req.Header.Set("Authorization", "Bearer "+f.Key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", fmt.Sprintf("flood-request-%06d", n))
	began := time.Now()
	resp, err := f.client.Do(req)
	if err != nil {
		f.Error(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	switch shed := strings.Contains(string(body), "More requests came than can be served in time."); {
	case resp.StatusCode == http.StatusAccepted && resp.Header.Get("Idempotent-Replayed") == "":
		f.Accepted.Add(1)
	case resp.StatusCode == http.StatusTooManyRequests:
		f.Limited.Add(1)
	case resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "":
		f.Errorf("%d %s", resp.StatusCode, body)
	case shed && !strings.Contains(string(body), `"may_have_counted":false`):
		f.Errorf("refused at once, and yet %s", body)
	case shed:
		f.Shed.Add(1)
		f.mu.Lock()
		f.shedIn = append(f.shedIn, time.Since(began))
		f.mu.Unlock()
	default:
		f.Unserved.Add(1)
	}
}

// Postgres is 150 ms away on a slow link, and several times as many requests come as it can serve.
// At least as many sends are served as under half of the load that it can serve, and most of the
// other requests are refused at once. At most eight connections are opened, no accepted send is
// lost, and no recipient gets more than the policy allows.
func TestSlowPostgresUnderOverload(t *testing.T) {
	s := apptest.OnOwnPostgres(t).Policy(apptest.LongRules)
	link := s.Through("SENDCODE_DATABASE_URL")
	s.Start(1)
	add := func(toxic string) {
		_, err := link.Toxics.AddToxicJson(strings.NewReader(toxic))
		apptest.Must(t, err)
	}
	add(`{"name":"up","type":"latency","stream":"upstream","attributes":{"latency":75}}`)
	add(`{"name":"down","type":"latency","stream":"downstream","attributes":{"latency":75}}`)
	const narrow = `{"name":"narrow","type":"bandwidth","stream":"upstream","attributes":{"rate":%d}}` // kB/s
	width := 120
	add(fmt.Sprintf(narrow, width))
	f := newFlood(s)
	half := f.wave(50, 3*time.Second)
	if n := f.Shed.Load() + f.Unserved.Load(); n > 0 {
		t.Errorf("%d not served under half load", n)
	}
	opened := sessions(s)
	var waves []int64
	for range 2 { // the second wave must be served as well as the first
		waves = append(waves, f.wave(800, 3*time.Second))
	}
	opened = sessions(s) - opened
	t.Logf(
		"%d accepted under half load, %v under overload; %d refused by the policy, %d at once, %d not served in time; %d connections opened",
		half, waves, f.Limited.Load(), f.Shed.Load(), f.Unserved.Load(), opened)
	for _, n := range waves {
		if n < half {
			t.Errorf("%d accepted under overload, %d under half of what can be served", n, half)
		}
	}
	for f.Shed.Load() == 0 && width > 4 { // a busy machine sends too few requests to overload this link
		width /= 2
		apptest.Must(t, link.Toxics.RemoveToxic(t.Context(), "narrow"))
		add(fmt.Sprintf(narrow, width))
		f.wave(800, 3*time.Second)
		t.Logf("%d refused at once where the link takes %d kB/s", f.Shed.Load(), width)
	}
	if n := f.Unserved.Load(); n > int64(f.sent)/5 || f.Shed.Load() == 0 {
		t.Errorf("of %d requests, %d waited in vain and %d were refused at once", f.sent, n, f.Shed.Load())
	}
	if opened > 8 { // connections that the pools had not opened before
		t.Errorf("%d connections were opened", opened)
	}
	for _, toxic := range []string{"up", "down", "narrow"} {
		apptest.Must(t, link.Toxics.RemoveToxic(t.Context(), toxic))
	}
	f.nothingIsLost()
}

// nothingIsLost waits until no send is in flight and no refund is due. Then each accepted send has
// arrived once, and no recipient has got a second one.
func (f *flood) nothingIsLost() {
	f.Helper()
	var h apptest.History
	f.Await("every send and refund to end", func() bool {
		h = f.History()
		return !slices.ContainsFunc(h, func(r store.SendOrRefusal) bool { return r.Status.InFlight() || r.RefundDue })
	})
	mails, rows := map[string]int{}, map[string]int{}
	for _, m := range f.Mails() {
		id, _, _ := strings.Cut(m.ID, ".")
		mails[id]++
	}
	for _, row := range h {
		to := row.Recipient.String()
		rows[to]++
		if n := mails[row.ID.String()]; row.Status != store.Sent || n != 1 || rows[to] > 1 {
			f.Errorf("send %s is %s, with %d mails; %d of its recipient", row.ID, row.Status, n, rows[to])
		}
	}
	if lost := f.Accepted.Load() - int64(len(h)); lost > 0 {
		f.Errorf("%d accepted sends are not there", lost)
	}
}

// sessions returns how many connections to its database Postgres has had, this one included.
func sessions(s *apptest.Stack) (n int) {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.Postgres.URL())
	apptest.Must(s.T, err)
	defer func() { _ = conn.Close(s.Context()) }()
	apptest.Must(s.T, conn.QueryRow(s.Context(), `SELECT sessions FROM pg_stat_database WHERE datname = current_database()`).Scan(&n))
	return n
}
