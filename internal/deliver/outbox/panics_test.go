package outbox_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store"
	"sendcode/internal/store/postgres"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// brokenParser is a connection on which each read panics once the bytes in after were written, as
// if the parser of the replies panicked.
type brokenParser struct {
	net.Conn
	after   string
	written []byte
}

func (b *brokenParser) Write(p []byte) (int, error) {
	b.written = append(b.written, p...)
	return b.Conn.Write(p)
}

func (b *brokenParser) Read(p []byte) (int, error) {
	if bytes.Contains(b.written, []byte(b.after)) {
		panic("ana.maria@example.com: the code is 123456")
	}
	return b.Conn.Read(p)
}

// brokenRenderer panics for mails in French.
type brokenRenderer struct{ outbox.MailRenderer }

func (r brokenRenderer) Prepare(x message.RenderRequest) (message.PreparedMail, error) {
	if x.Locale == "fr" {
		_ = []string{"the code is 123456"}[len(x.Locale)]
	}
	return r.MailRenderer.Prepare(x)
}

// A panic in an attempt affects only that send. If the mail cannot have left, the send is tried
// once more, and then fails and frees its place. From the final dot on, the outcome is unknown.
// Afterwards, both replicas over one Postgres still send mails.
func TestPanicInAnAttemptEndsOnlyItsSend(t *testing.T) {
	url := servertest.Postgres(t).NewDatabase(t)
	servertest.OK(t, postgres.Migrate(t.Context(), url, ""))
	server := smtptest.Start(t, smtptest.Script{})
	var mu sync.Mutex
	after := "" // new connections panic once they have written this text; "": never
	plant := func(s string) { mu.Lock(); defer mu.Unlock(); after = s }
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || after == "" {
			return conn, err
		}
		return &brokenParser{Conn: conn, after: after}, nil
	}
	s := vtest.TestSettings(t)
	s.Tick = 50 * time.Millisecond
	limiter := quota.NewMemory(time.Now)
	var replicas []*vtest.Process
	var senders []mailserver.Servers
	for range 2 {
		db, err := postgres.Open(t.Context(), url, "")
		servertest.OK(t, err)
		t.Cleanup(func() { _ = db.Close() })
		sender := server.Sender(t, func(c *smtp.Config) { c.Dial, c.MaxMails, c.MaxConns = dial, 1, 1 })
		p := vtest.New(s, core.Dependencies{DB: &db.DB, Limiter: limiter, Sender: sender})
		p.Outbox.Mails = brokenRenderer{p.Outbox.Mails}
		t.Cleanup(p.Background())
		replicas, senders = append(replicas, p), append(senders, sender)
	}
	n := 0
	send := func(p *vtest.Process, locale string) string {
		t.Helper()
		n++
		ask := vtest.AskFor(vtest.NthAddress(n))
		ask.Locale = locale
		a, err := p.Send(t.Context(), ask)
		if err != nil || !a.Admitted {
			t.Fatalf("%+v, %v", a, err)
		}
		return a.View.ID
	}
	type outcome struct {
		status  store.Status
		reason  string
		attempt int
		counts  bool
	}
	await := func(p *vtest.Process, id string, want outcome) {
		t.Helper()
		var s store.Send
		servertest.Await(t, string(want.status), func() bool {
			_, s, _, _ = p.Outbox.Store.Verification(t.Context(), id)
			return s.Status == store.Failed || s.Status == store.Unknown || s.Status == store.Sent
		})
		servertest.Same(t, "the send", outcome{s.Status, s.Reason, s.Attempt, s.Counts}, want)
	}
	early := map[string]*vtest.Process{}
	plant("EHLO")
	for _, p := range replicas {
		early[send(p, "")], early[send(p, "fr")] = p, p
	}
	for id, p := range early {
		await(p, id, outcome{store.Failed, "internal", 2, false})
	}
	servertest.Same(t, "mails", len(server.Messages()), 0)
	plant("\r\n.\r\n")
	for i, p := range replicas {
		await(p, send(p, ""), outcome{store.Unknown, "no_answer", 1, true})
		servertest.Await(t, "one mail each", func() bool { return len(server.Messages()) == i+1 })
	}
	plant("")
	for i, p := range replicas { // both replicas still send, and have released all connections
		await(p, send(p, ""), outcome{store.Sent, "", 1, true})
		servertest.Await(t, "all connections free", func() bool { used, _, _ := senders[i][0].ConnCounts(); return used == 0 })
	}
}
