package drill

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/app"
	"sendcode/internal/config"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/recipient"
	"sendcode/internal/servertest"
	"sendcode/tools/rows"
)

// street is a service on real parts with many sends in its log, and a mail server and a carrier whose answers are scripted.
type street struct {
	*testing.T
	base    string
	db      *pgx.Conn
	mails   *smtptest.Server
	carrier *carrier
	rules   []smtptest.Rule // what the mail server does to whom

	indexKey []byte
}

const (
	adminPassword = "a password for the drill"
	adminToken    = "tok_0123456789abcdefghijABCDEFGHIJ"
	hookSecret    = "a-secret-of-the-provider-and-ours"
	hookUser      = "sendcode"
	frozenWhy     = "the templates are wrong"
)

// keyOf is an app's secret key.
func keyOf(name string) string { return "sk_drill_" + name + "_0123456789abcdef" }

// apps are the apps that send.
var apps = []string{"shop", "desk"}

// settings returns a configuration with every kind of rule, so that each can refuse.
func settings(carrierURL string) string {
	text := `policies:
  hourly:   [{name: hour, scope: recipient, limit: 2, window: 1h}]
  daily:    [{name: day, scope: recipient, limit: 2, window: 24h}]
  shared:   [{name: hour, scope: recipient, limit: 5, window: 1h}, {name: whole_app, scope: app, limit: 3, window: 1h}]
  near:     [{name: hour, scope: recipient, limit: 5, window: 1h}, {name: office, scope: ip, limit: 2, window: 1h}]
  all:      [{name: hour, scope: recipient, limit: 5, window: 1h}, {name: everybody, scope: global, limit: 3, window: 1h}]
  fragile:  [{name: hour, scope: recipient, limit: 5, window: 1h}, {name: failures, scope: failures, limit: 2, window: 24h}]
  roomy:    [{name: hour, scope: recipient, limit: 50, window: 1h}]
purposes:
  login:
  hourly:   {policy: hourly}
  daily:    {policy: daily}
  campaign: {policy: shared}
  kiosk:    {policy: near}
  launch:   {policy: all}
  signup:   {policy: fragile}
  order:    {policy: roomy}
  frozen:   {policy: roomy}
paused: [{channel: email, purpose: frozen, reason: "` + frozenWhy + `"}]
block: [{domain: traps.example, reason: spam traps}]
sms:
  countries: [DE]
  public_url: https://codes.example.com
  carriers:
    - name: tower
      type: http
      url: "` + carrierURL + `/"
      format: json
      body: '{"to": "{to}", "callback": "{callback}", "text": "{text}"}'
      answer: {id: $.id, code: $.status, accepted: ["0"], codes: {"1": temporary, "6": rejected, "9": limit 3600s}}
      receipt: {status: st, delivered: [ok], undelivered: [lost]}
provider_events:
  - name: post
    scheme: basic
    user: ` + hookUser + `
    secret_env: POST_SECRET
    message: message
    type: type
    outcomes: {gone: bounced_for_good, full: bounced, spam: complained}
    recipient: to
    detail: detail
apps:
`
	for _, name := range apps {
		text += fmt.Sprintf("  - {name: %s, keys: [{id: k1, kind: secret, sha256: %x}]}\n", name, sha256.Sum256([]byte(keyOf(name))))
	}
	return text
}

// open starts the service, with so many ordinary sends.
func open(t *testing.T, size int) *street {
	t.Helper()
	s := &street{T: t, mails: smtptest.StartAt(t, servertest.FreePort(t), smtptest.Script{}), carrier: startCarrier(t)}
	postgres, err := servertest.StartPostgres(t.Context(), "shared_buffers=512MB", "max_wal_size=4GB", "maintenance_work_mem=256MB")
	if err != nil {
		servertest.Postgres(t) // skips where there is none
		t.Fatal(err)
	}
	t.Cleanup(func() { s.must(postgres.Close()) })
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	s.must(os.WriteFile(file, []byte(settings(s.carrier.URL)), 0o600))
	cfg, err := config.Load([]string{
		"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR=" + filepath.Join(t.TempDir(), "data"), "SENDCODE_CONFIG=" + file,
		"SENDCODE_DATABASE_URL=" + postgres.URL(), "SENDCODE_REDIS_URL=" + servertest.Redis(t).URL(), "SENDCODE_SMTP_URL=" + s.mails.URL(),
		"SENDCODE_ADMIN_PASSWORD=" + adminPassword, "SENDCODE_ADMIN_TOKEN=" + adminToken, "SENDCODE_ADMIN_TOKEN_ROLE=owner",
		"POST_SECRET=" + hookSecret,
		"SENDCODE_SECRET_KEYS=k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM=", "SENDCODE_INDEX_KEY=8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE=",
	}, os.ReadFile)
	s.must(err)
	s.indexKey = cfg.IndexKeyBytes()
	s.must(app.Migrate(t.Context(), cfg))
	s.must(rows.Fill(t.Context(), postgres.URL(), size))
	s.db, err = pgx.Connect(t.Context(), postgres.URL())
	s.must(err)
	t.Cleanup(func() { s.must(s.db.Close(context.Background())) })
	s.serve(cfg)
	return s
}

func (s *street) serve(cfg config.Config) {
	s.Helper()
	a, err := app.New(s.Context(), cfg, slog.New(slog.NewJSONHandler(io.Discard, nil)))
	s.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx) }()
	s.Cleanup(func() {
		stop()
		s.must(<-ended)
	})
	s.base = "http://" + a.Addr()
}

func (s *street) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// await waits until the log's rows of a recipient are as wanted.
func (s *street) await(i *incident, what string, done func([]row) bool) []row {
	s.Helper()
	limit := time.After(time.Minute)
	for {
		found := s.rowsOf(i)
		if done(found) {
			return found
		}
		select {
		case <-limit:
			s.Fatalf("%s: waited a minute for %s: %+v", i.kind.name, what, found)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// row is what the log says of one request.
type row struct {
	ID                        string
	Status, Reason, BlockedBy string
}

// rowsOf reads the database itself, since the service is under test.
func (s *street) rowsOf(i *incident) []row {
	s.Helper()
	found, err := s.db.Query(s.Context(), `SELECT id::text, status, reason, blocked_by FROM sends WHERE recipient = $1 ORDER BY logged_at DESC, id DESC`, s.hash(i))
	s.must(err)
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	s.must(err)
	return all
}

// hash returns the hash of the incident's recipient.
func (s *street) hash(i *incident) []byte {
	s.Helper()
	r, err := recipient.Parse(i.channel, i.to)
	s.must(err)
	h := r.Hash(s.indexKey)
	return h[:]
}

// age moves all rows of an incident into the past.
func (s *street) age(i *incident, by time.Duration) {
	s.Helper()
	shift := fmt.Sprintf("%d microseconds", by.Microseconds())
	for _, sql := range []string{
		`UPDATE sends SET taken_at = taken_at - $1::interval, logged_at = logged_at - $1::interval, finished_at = finished_at - $1::interval WHERE recipient = $2`,
		`UPDATE failures SET logged_at = logged_at - $1::interval, finished_at = finished_at - $1::interval WHERE recipient = $2`,
		`UPDATE verifications SET created_at = created_at - $1::interval, expires_at = expires_at - $1::interval, approved_at = approved_at - $1::interval, canceled_at = canceled_at - $1::interval WHERE recipient = $2`,
		`UPDATE suppressions SET since = since - $1::interval, until = until - $1::interval WHERE recipient = $2`,
		`UPDATE provider_events SET at = at - $1::interval, heard_at = heard_at - $1::interval WHERE send_id IN (SELECT id FROM sends WHERE recipient = $2)`,
	} {
		_, err := s.db.Exec(s.Context(), sql, shift, s.hash(i))
		s.must(err)
	}
	i.moved(-by)
}

// hurry makes the codes of an incident expire soon.
func (s *street) hurry(i *incident, left time.Duration) {
	s.Helper()
	ends := time.Now().Add(left)
	_, err := s.db.Exec(s.Context(), `UPDATE verifications SET expires_at = $1 WHERE recipient = $2`, ends, s.hash(i))
	s.must(err)
	i.knows("until", ends)
}

// rests postpones the next attempt by some minutes: while one is under way, the verdict is another.
func (s *street) rests(i *incident) {
	s.Helper()
	s.await(i, "a pause between two attempts", func([]row) bool {
		done, err := s.db.Exec(s.Context(), `UPDATE flights SET due_at = due_at + interval '3 minutes' WHERE queued AND id IN (SELECT id FROM sends WHERE recipient = $1)`, s.hash(i))
		s.must(err)
		return done.RowsAffected() == 1
	})
}

// client talks to the service on loopback.
var client = &http.Client{Timeout: time.Minute}
