package outbox_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// crowded is a mail server with few connections. A mail waits in turn for a free one.
type crowded struct {
	*vtest.MailServer
	conns chan struct{}
}

func (c crowded) ConnLimit() int { return cap(c.conns) }

func (c crowded) Send(ctx context.Context, m delivery.Mail) (delivery.Result, error) {
	c.conns <- struct{}{}
	defer func() { <-c.conns }()
	return c.MailServer.Send(ctx, m)
}

// knownBrowser returns a request of a browser in which a code of Ana's was entered.
func knownBrowser(r *vtest.Rig) verification.Request {
	r.Helper()
	ask := vtest.AskFor(vtest.Ana, vtest.By(vtest.Browser))
	id := r.Send(ask).View.ID
	checked, _, _ := r.Try(ask.Caller, id, r.LastCode())
	ask.KnownTokens = []string{checked.KnownToken}
	return ask
}

// attempted returns the time from now until the first attempt of a mail for the address. It skips
// as many earlier attempts of any mail as after says.
func attempted(r *vtest.Rig, to string, after int) time.Duration {
	r.Helper()
	for began := time.Now(); time.Since(began) < 5*time.Minute; r.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		for _, m := range r.MailServer.Attempts()[after:] {
			if m.To == to {
				return time.Since(began)
			}
		}
	}
	r.Fatalf("no mail for %s is attempted", to)
	return 0
}

// knowUsualTime sends mails for known people until the outbox has measured that the server takes
// this long for each.
func knowUsualTime(r *vtest.Rig, each time.Duration) {
	for i := range 10 {
		r.AskAt(r.Svc, vtest.AskFor(fmt.Sprintf("usual-%d@example.com", i)), true)
		r.Sleep(each + time.Millisecond)
	}
}

// inOneOfFourDomains returns the nth of many addresses in four domains.
func inOneOfFourDomains(n int) string { return fmt.Sprintf("person-%d@n%d.example", n, n%4) }

// 400 mails of strangers wait for a mail server that takes 2 s for each. The mails of a secret key
// and of a known browser are still attempted at once: if memory has capacity for all, if most wait
// in the database, and if there are fewer connections than workers. Over a single connection, they
// wait for one mail of a stranger. The strangers' mails also go out, as fast as the connections
// that are not reserved for others allow.
func TestStrangersMailsDelayNoOthers(t *testing.T) {
	const n, each = 400, 2 * time.Second
	for name, c := range map[string]struct{ workers, conns, room int }{
		"in memory": {16, 16, outbox.DefaultCapacity}, "in the database": {16, 16, memory},
		"few connections": {16, 4, outbox.DefaultCapacity},
		"one connection":  {16, 1, outbox.DefaultCapacity}, "more connections": {8, 16, outbox.DefaultCapacity},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleIdle(t, func(s *vtest.Settings) { s.Workers = c.workers }, func(r *vtest.Rig) {
				defer r.Quit() // also after Fatal
				known := knownBrowser(r)
				r.Sleep(time.Minute) // until the rules admit another code for Ana
				r.MailServer.Delay = each
				r.Svc = r.ReplicaOn(r.Store, crowded{r.MailServer, make(chan struct{}, c.conns)}, nil)
				r.Svc.Outbox.Capacity = c.room
				r.Start()
				knowUsualTime(r, each)
				for i := range n {
					r.AskAt(r.Svc, vtest.AskFor(inOneOfFourDomains(i), vtest.By(browserIn(i))), true)
				}
				synctest.Wait()
				if held, _ := r.Svc.Outbox.Held(recipient.Email); held > c.room/2 {
					t.Errorf("memory holds %d mails of strangers, and has room for %d", held, c.room)
				}
				r.Sleep(each + each/2) // in the middle of attempts
				wait := time.Duration(0)
				if c.conns == 1 {
					wait = each // for one mail of a stranger
				}
				sent := len(r.MailServer.Attempts())
				for i := range 20 { // one after the other
					to := fmt.Sprintf("own-%d@example.com", i)
					r.AskAt(r.Svc, vtest.AskFor(to), true)
					if took := attempted(r, to, 0); took > wait {
						t.Fatalf("the mail of a secret key is attempted after %v, want %v", took, wait)
					}
					r.Sleep(each)
				}
				r.AskAt(r.Svc, known, true)
				if took := attempted(r, vtest.Ana, 1); took > wait {
					t.Errorf("the mail of a known browser is attempted after %v, want %v", took, wait)
				}
				n := min(c.workers, c.conns)
				share := max(1, n/2, n-2)
				if got := len(r.MailServer.Attempts()) - sent - 21; got < 19*share || got > 23*share {
					t.Errorf("of the strangers %d mails were attempted in 20 times 2 s, want %d at a time", got, share)
				}
			})
		})
	}
}

// changingServer is a mail server whose number of connections changes.
type changingServer struct {
	*vtest.MailServer
	conns *atomic.Int32
}

func (s changingServer) ConnLimit() int { return int(s.conns.Load()) }

// Strangers' mails use all connections that the server accepts, except those reserved for others.
// That holds even if the server's limit changes without a new send.
func TestStrangersMailsFollowTheServer(t *testing.T) {
	vtest.InBubbleIdle(t, func(s *vtest.Settings) { s.Workers = 20 }, func(r *vtest.Rig) {
		conns := &atomic.Int32{}
		conns.Store(4)
		r.MailServer.Delay = time.Second
		r.Svc = r.ReplicaOn(r.Store, changingServer{r.MailServer, conns}, nil)
		r.Start()
		knowUsualTime(r, time.Second)
		for i := range 100 {
			r.AskAt(r.Svc, vtest.AskFor(inOneOfFourDomains(i), vtest.By(browserIn(i))), true)
		}
		r.Sleep(time.Second / 2)
		for _, c := range []struct{ conns, attempts int32 }{{4, 2}, {7, 5}, {20, 18}, {3, 1}} {
			conns.Store(c.conns)
			r.Sleep(time.Second)
			before := len(r.MailServer.Attempts())
			r.Sleep(time.Second)
			r.Want(fmt.Sprint("mails a second over ", c.conns), len(r.MailServer.Attempts())-before, c.attempts)
		}
	})
}

// The mails of one network, one domain, or a back end that names no clients may use all workers of
// strangers if the server answers in time. Only held mails give way to others.
func TestQuickMailsOfOneNetworkUseAllWorkers(t *testing.T) {
	unnamed := vtest.ForStranger
	unnamed.IP = netip.Addr{}
	for name, c := range map[string]struct {
		by func(n int) verification.Caller
		to string
	}{
		"one network": {func(int) verification.Caller { return browserIn(0) }, "person-%[1]d@n%[1]d.example"},
		"one domain":  {browserIn, "person-%d@n.example"},
		"no network":  {func(int) verification.Caller { return unnamed }, "person-%d@n.example"},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleIdle(t, func(s *vtest.Settings) { s.Workers = 20 }, func(r *vtest.Rig) {
				defer r.Quit()
				r.MailServer.Delay = time.Second
				r.Svc = r.ReplicaOn(r.Store, crowded{r.MailServer, make(chan struct{}, 20)}, nil)
				r.Start()
				for n := range 90 {
					r.AskAt(r.Svc, vtest.AskFor(fmt.Sprintf(c.to, n), vtest.By(c.by(n))), true)
				}
				r.Sleep(time.Second / 2)
				r.Want("mails under way", len(r.MailServer.Attempts()), 18)
				r.Sleep(time.Minute)
				r.Want("mails in the end", len(r.MailServer.Attempts()), 90)
			})
		})
	}
}
