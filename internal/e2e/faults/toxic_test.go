package faults

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"sendcode/internal/app/apptest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Each run has two replicas under load while one link, to Redis, to Postgres or to the mail server, is slow, is cut into
// small pieces, breaks off in the middle of what is said, or is reset, one after the other. Afterwards the log holds not one
// send over policy, everything that was accepted has one outcome that is true, and the service is whole by itself.

// link is a way to a part through a proxy that does what is asked of it.
type link struct {
	*testing.T
	proxy *toxiproxy.Proxy
}

// through puts a proxy in front of a part, and into the setting that names the part.
func through(s *apptest.Stack, setting string) *link {
	s.Helper()
	at, err := url.Parse(s.Env[setting])
	if err != nil {
		s.Fatal("the setting is no URL")
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &link{s.T, toxiproxy.NewProxy(server, setting, "127.0.0.1:0", at.Host)}
	if err := l.proxy.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(l.proxy.Stop)
	s.Env[setting] = strings.Replace(s.Env[setting], at.Host, l.proxy.Listen, 1)
	return l
}

// faults are what goes wrong, in turn. Between them the link works, or nothing would ever get through.
var faults = [][]string{
	{`{"name":"late","type":"latency","stream":"downstream","attributes":{"latency":60,"jitter":50}}`},
	{`{"name":"down","type":"reset_peer","stream":"downstream","attributes":{"timeout":20}}`},
	nil,
	{`{"name":"part","type":"limit_data","stream":"upstream","attributes":{"bytes":700}}`},
	nil,
	{`{"name":"slices","type":"slicer","stream":"downstream","attributes":{"average_size":40,"size_variation":20,"delay":300}}`},
	{`{"name":"up","type":"reset_peer","stream":"upstream","attributes":{"timeout":0}}`},
	nil,
	{`{"name":"reply","type":"limit_data","stream":"downstream","attributes":{"bytes":300}}`},
	nil,
}

// suffer has the link do all of that until the context ends, and leaves it in order.
func (l *link) suffer(ctx context.Context) int {
	defer l.proxy.Toxics.ResetToxics(l.Context())
	return every(ctx, 150*time.Millisecond, func(n int) {
		l.proxy.Toxics.ResetToxics(l.Context())
		for _, fault := range faults[n%len(faults)] {
			if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(fault)); err != nil {
				l.Error(err)
			}
		}
	})
}

func TestLinkToRedisUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(t)
	l := through(s, "SENDCODE_REDIS_URL")
	survives(s.Start(2), underLoad(s, l.suffer))
}

func TestLinkToPostgresUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(t)
	l := through(s, "SENDCODE_DATABASE_URL")
	survives(s.Start(2), asking(s, 20, 1, l.suffer))
}

func TestLinkToTheMailServerUnderLoad(t *testing.T) {
	t.Parallel()
	s := underTightRules(t)
	l := through(s, "SENDCODE_SMTP_URL")
	survives(s.Start(2), asking(s, 20, 1, l.suffer))
}

// survives says what a run left behind, as holds does, where a link may break at any byte: a mail after whose end nothing was
// heard is unknown, and keeps its place; so does what a server had taken without an answer.
func survives(s *apptest.Stack, l *load) {
	s.Helper()
	recovers(s)
	h := ended(s, s.Replicas[0].Log())
	for _, breach := range overPolicy(h, quota.OfScope(s.Config().Policies["default"].Rules, quota.Recipient), 0) {
		s.Error(breach)
	}
	got, states := map[string]int{}, map[string]int{}
	for _, m := range s.Mails() {
		got[m.ID]++
	}
	rows := map[string]bool{}
	for _, row := range h {
		n := got[row.ID.String()+"@localhost"]
		rows[row.ID.String()] = true
		states[string(row.Status)]++
		if !truthful(row, n) {
			s.Errorf("send %s is %s %s, counts %v, in doubt %v, with %d mails", row.ID, row.Status, row.Reason, row.Counts, row.InDoubt, n)
		}
	}
	for id := range l.sends {
		if !rows[id.String()] {
			s.Errorf("send %s was accepted and is not in the log", id)
		}
	}
	s.Logf("%d sends: %v; %d mails", len(h), states, len(s.Mails()))
}

// truthful says whether a row and the mails that arrived agree.
func truthful(row store.Send, mails int) bool {
	switch row.Status {
	case store.Sent:
		return row.Counts && (mails == 1 || row.InDoubt && mails == 2)
	case store.Failed:
		return row.Counts == row.InDoubt && (mails == 0 || row.InDoubt)
	case store.Unknown:
		return row.Counts && mails <= 1
	}
	return false
}
