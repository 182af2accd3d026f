package drill

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/app"
	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/recipient"
	"sendcode/tools/rows"
)

// environment is a service on real parts with many sends in its database, and a mail server and a
// carrier whose answers are scripted.
type environment struct {
	*apptest.Stack
	db       *pgx.Conn
	carrier  *apptest.Carrier
	rules    []smtptest.Rule // what the mail server does to whom
	indexKey []byte
}

const (
	hookSecret = "a-secret-of-the-provider-and-ours"
	hookUser   = "sendcode"
	frozenWhy  = "the templates are wrong"
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
stop: [{channel: email, purpose: frozen, reason: "` + frozenWhy + `"}, {to: "*@traps.example", reason: spam traps}]
sms:
  countries: [DE]
  public_url: https://codes.example.com
  carriers:
    - name: tower
      type: http
      url: "` + carrierURL + `/"
      body: "to={to}&cb={callback}&text={text}"
      answer: {id: $.id, code: $.status, codes: {"0": accepted, "1": temporary, "6": rejected, "9": limit 3600s}}
      receipt: st
      delivered: [ok]
      undelivered: [lost]
provider_events:
  - name: post
    scheme: basic
    secret_env: POST_SECRET
    message: message
    type: type
    outcomes: {gone: bounced_for_good, full: bounced, spam: complained}
    recipient: to
    detail: detail
apps:
`
	for _, name := range apps {
		text += fmt.Sprintf("  - {name: %s, keys: [{id: k1, kind: secret, sha256: %x}]}\n", name,
			sha256.Sum256([]byte(keyOf(name))))
	}
	return text
}

// open starts the service, with so many ordinary sends.
func open(t *testing.T, size int) *environment {
	t.Helper()
	s := &environment{Stack: apptest.OnRealParts(t), carrier: apptest.NewCarrier(t)}
	s.Env["POST_SECRET"] = hookSecret
	s.Write(settings(s.carrier.URL))
	cfg := s.Config()
	s.indexKey = cfg.IndexKeyBytes()
	s.must(app.Migrate(t.Context(), cfg, io.Discard))
	s.must(rows.Fill(t.Context(), s.Postgres.URL(), size))
	var err error
	s.db, err = pgx.Connect(t.Context(), s.Postgres.URL())
	s.must(err)
	t.Cleanup(func() { s.must(s.db.Close(context.Background())) })
	s.Start(1)
	return s
}

func (s *environment) must(err error) {
	s.Helper()
	apptest.Must(s.T, err)
}

// await waits until the database's rows of a recipient are as wanted.
func (s *environment) await(i *incident, what string, done func([]row) bool) {
	s.Helper()
	s.Await(i.kind.name+": "+what, func() bool { return done(s.rowsOf(i)) })
}

// row is what the database says of one request.
type row struct {
	ID                        string
	Status, Reason, BlockedBy string
	LoggedAt                  time.Time
}

// rowsOf reads the database itself, since the service is under test.
func (s *environment) rowsOf(i *incident) []row {
	s.Helper()
	found, err := s.db.Query(s.Context(), `SELECT id::text, status, reason, '', logged_at FROM sends WHERE recipient = $1
UNION ALL SELECT id::text, 'refused', '', blocked_by, logged_at FROM refusals WHERE recipient = $1 ORDER BY 5 DESC, 1 DESC`, s.hash(i))
	s.must(err)
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	s.must(err)
	return all
}

// hash returns the hash of the incident's recipient.
func (s *environment) hash(i *incident) []byte {
	s.Helper()
	r, err := recipient.Parse(i.channel, i.to)
	s.must(err)
	h := r.Hash(s.indexKey)
	return h[:]
}

// age moves all rows of an incident into the past.
func (s *environment) age(i *incident, by time.Duration) {
	s.Helper()
	shift := fmt.Sprintf("%d microseconds", by.Microseconds())
	for _, sql := range []string{
		`UPDATE sends SET taken_at = taken_at - $1::interval, logged_at = logged_at - $1::interval, finished_at = finished_at - $1::interval WHERE recipient = $2`,
		`UPDATE refusals SET taken_at = taken_at - $1::interval, logged_at = logged_at - $1::interval WHERE recipient = $2`,
		`UPDATE failures SET logged_at = logged_at - $1::interval, finished_at = finished_at - $1::interval WHERE recipient = $2`,
		`UPDATE verifications SET created_at = created_at - $1::interval, expires_at = expires_at - $1::interval, approved_at = approved_at - $1::interval, canceled_at = canceled_at - $1::interval,
			checks = (SELECT coalesce(string_agg(split_part(c, ' ', 1)::bigint - extract(epoch FROM $1::interval)::bigint * 1000000 || ' ' || split_part(c, ' ', 2), ',' ORDER BY n), '')
				FROM unnest(string_to_array(checks, ',')) WITH ORDINALITY AS x (c, n)) WHERE recipient = $2`,
		`UPDATE suppressions SET since = since - $1::interval, until = until - $1::interval WHERE recipient = $2`,
		`UPDATE provider_events SET at = at - $1::interval, heard_at = heard_at - $1::interval WHERE send_id IN (SELECT id FROM sends WHERE recipient = $2)`,
	} {
		_, err := s.db.Exec(s.Context(), sql, shift, s.hash(i))
		s.must(err)
	}
	i.moved(-by)
}

// hurry makes the codes of an incident expire soon.
func (s *environment) hurry(i *incident, left time.Duration) {
	s.Helper()
	ends := time.Now().Add(left)
	_, err := s.db.Exec(s.Context(), `UPDATE verifications SET expires_at = $1 WHERE recipient = $2`, ends, s.hash(i))
	s.must(err)
	i.knows("until", ends)
}

// rests postpones the next attempt by some minutes: while one is under way, the verdict is another.
func (s *environment) rests(i *incident) {
	s.Helper()
	s.await(i, "a pause between two attempts", func([]row) bool {
		done, err := s.db.Exec(s.Context(),
			`UPDATE outbox SET due_at = due_at + interval '3 minutes' WHERE queued AND id IN (SELECT id FROM sends WHERE recipient = $1)`, s.hash(i))
		s.must(err)
		return done.RowsAffected() == 1
	})
}
