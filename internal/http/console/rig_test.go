package console

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/postgres"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/verify/support"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
	"sendcode/web"
)

// These are the checks of an answer, under short names.
var (
	want, redirects, contains, lacks = consoletest.Want, consoletest.Redirects, consoletest.Contains, consoletest.Lacks
)

func TestMain(m *testing.M) {
	auth.CheapHashesForTests()
	os.Exit(m.Run())
}

type act = consoletest.Act

// rig is a console on the service and the database of its Rig.
type rig struct {
	*consoletest.Rig
	console *Console // of the newest handler
	db      *sqldb.DB
	ids     uint64

	postgresURL string // of the database; empty on SQLite

	ownCode []byte      // sealed code of new sends whose codes the app makes and checks; nil: the service does
	class   store.Class // of the callers that request new sends
}

func newRig(t *testing.T, changes ...func(*Config)) *rig {
	t.Helper()
	r := &rig{Rig: consoletest.NewRig(t)}
	r.db = &r.Store.DB.DB
	r.serve(changes...)
	return r
}

// onPostgres is newRig on a Postgres database. The rig's clock begins at the real time, because the
// database uses its own clock.
func onPostgres(t *testing.T, changes ...func(*Config)) *rig {
	t.Helper()
	url := servertest.Postgres(t).NewDatabase(t)
	servertest.OK(t, postgres.Migrate(t.Context(), url, ""))
	db, err := postgres.Open(t.Context(), url, "")
	servertest.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	r := &rig{Rig: consoletest.NewRig(t), db: &db.DB, postgresURL: url}
	r.Clock.Add(time.Since(r.Clock.Now()))
	r.Svc = r.ReplicaOn(r.db, r.MailServer, nil)
	r.serve(append([]func(*Config){func(c *Config) { c.DB = r.db }}, changes...)...)
	return r
}

// serve makes the console.
func (r *rig) serve(changes ...func(*Config)) {
	r.Helper()
	logger := r.Logger
	c := Config{
		DB: r.Store, Administration: r.Svc.Administration, Logger: logger, Now: r.Clock.Now,
		Auth: auth.Config{
			Accounts: r.Store, Sessions: r.Store, Factors: r.Store, Limiter: r.Svc.Gates, AdminPassword: consoletest.Password,
			Ring: r.Ring(), Refused: func(string, string) {},
			Tokens: []auth.Token{{SHA256: sha256.Sum256([]byte(consoletest.Token)), Role: auth.Owner}},
		},
		Status: func(context.Context) ServiceStatus { return ServiceStatus{Counted: true} }, TopicProviders: []string{"ses"},
		Webhooks: r.Svc.Webhooks,
		StorageStatus: func(ctx context.Context) (store.StorageStatus, error) {
			return r.Store.StorageStatus(ctx, 90*24*time.Hour)
		},
	}
	for _, change := range changes {
		change(&c)
	}
	e := server.New(server.Config{Logger: logger})
	r.console = New(c)
	r.console.Register(e)
	e.GET(web.StaticPath+"*", echo.WrapHandler(http.HandlerFunc(web.ServeStatic)))
	r.Handler = e
}

// id returns a UUID version 7 of the test's clock. A counter distinguishes the IDs of one
// millisecond.
func (r *rig) id() uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(r.Clock.Now().UnixMilli())<<16)
	r.ids++
	binary.BigEndian.PutUint64(id[8:], r.ids)
	id[6], id[8] = 0x70, 0x80|id[8]&0x3f
	return id
}

// act returns the audit entry of an action by the configured account.
func (r *rig) act(action string) store.AuditEntry {
	return store.AuditEntry{ID: r.id(), Who: "admin", Role: "owner", What: action, Reason: "ticket 7", Outcome: store.AuditDone}
}

func (r *rig) recipient(to string) (recipient.Recipient, recipient.Hash) {
	r.Helper()
	p, err := recipient.Parse(recipient.Email, to)
	r.Must(err)
	return p, p.Hash(r.Svc.Vault.IndexKey)
}

// suppress suppresses an address, and returns its hash.
func (r *rig) suppress(to, why string) recipient.Hash {
	r.Helper()
	request := support.SuppressRequest{Channel: "email", To: to, Reason: why}
	r.Must(r.Svc.Administration.Suppress(r.Context(), request, r.act(auth.ActionSuppress)))
	_, hash := r.recipient(to)
	return hash
}

// row returns the fields that a send and a refusal have in common.
func (r *rig) row(to string) store.Send {
	r.Helper()
	p, hash := r.recipient(to)
	return store.Send{
		ID: r.id(), App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: hash, To: p.Masked(), Locale: "en",
		Network: "203.0.113.0/24",
	}
}

// begin writes a send as the use cases do: first a place in the limiter, then the row.
func (r *rig) begin(to string, changes ...func(*store.Send)) store.BeginAnswer {
	r.Helper()
	row := r.row(to)
	for _, change := range changes {
		change(&row)
	}
	r.take(row)
	id := "v" + row.ID.String()
	sealed, err := r.Ring().Seal("recipient", []byte(to), []byte(id))
	r.Must(err)
	begun, err := r.db.Begin(r.Context(), store.Intent{
		Send: row, Rules: verificationtest.DefaultRules(), Purposes: []string{row.Purpose}, TTL: 10 * time.Minute,
		MinLife: 2 * time.Minute, Lease: 8 * time.Second,
		Verification: store.Verification{
			ID: id, App: row.App, Channel: row.Channel, Purpose: row.Purpose, Recipient: row.Recipient, To: row.To, Sealed: sealed,
			Nonce: make([]byte, 16), KeyID: r.Ring().CurrentID(), CodeLength: 6, Alphabet: "digits", Holder: "h", MaxAttempts: 5, Labels: row.Labels,
			CallerChecks: r.ownCode != nil, Class: r.class,
		},
		Code: r.ownCode,
	})
	r.Must(err)
	if !begun.Admitted {
		r.Fatal("the database refused the rig's send")
	}
	return begun
}

func (r *rig) take(row store.Send) {
	r.Helper()
	r.Must(r.Limiter.Take(r.Context(),
		quota.Request{ID: string(row.ID[:]), Rules: verificationtest.DefaultRules(), Buckets: map[quota.Scope]string{
			quota.Recipient: quota.Bucket(row.App, string(row.Channel), "default", string(quota.Recipient), row.Recipient.String()),
		}}))
}

func (r *rig) finish(s store.Send, o store.Outcome) {
	r.Helper()
	o.AttemptID = store.AttemptID{ID: s.ID, Attempt: s.Attempt}
	ok, err := r.db.Finish(r.Context(), o)
	r.Must(err)
	if !ok {
		r.Fatal("the database did not take the outcome")
	}
}

// writeSent writes a send that a server accepted 184 ms later.
func (r *rig) writeSent(to string, changes ...func(*store.Send)) store.Send {
	r.Helper()
	s := r.begin(to, changes...).Send
	r.Clock.Add(184 * time.Millisecond)
	r.finish(s, store.Outcome{Status: store.Sent, Provider: "mx1.example.net", ProviderCode: "250 2.0.0", Took: 184 * time.Millisecond})
	return s
}

// writeRefused writes n refusals by the rule as one row.
func (r *rig) writeRefused(to, rule string, wait time.Duration, n int, changes ...func(*store.SendOrRefusal)) store.SendOrRefusal {
	r.Helper()
	row := store.SendOrRefusal{Send: r.row(to), Refusal: store.Refusal{BlockedBy: rule, RetryAfter: wait, Count: n}}
	row.Status = store.Refused
	for _, change := range changes {
		change(&row)
	}
	r.Must(r.db.RecordRefusals(r.Context(), []store.SendOrRefusal{row}))
	return row
}

// loggedIn returns a rig, and a browser with a session of the configured account.
func loggedIn(t *testing.T) (*rig, *consoletest.Browser) {
	t.Helper()
	r := newRig(t)
	return r, r.LoggedIn()
}
