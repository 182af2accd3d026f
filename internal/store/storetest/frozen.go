package storetest

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/keys"
	"sendcode/internal/store"
)

// FrozenAt is the time on the database's clock when FillFrozen wrote the older half of its rows;
// FrozenLater is the time when it wrote the others, and when ReadFrozen reads all rows.
var (
	FrozenAt    = time.Date(2024, 3, 6, 12, 0, 0, 0, time.UTC)
	FrozenLater = FrozenAt.Add(3 * time.Hour)
)

var frozenSession = [32]byte{31: 9}

// frozenRing returns the key that sealed a row of FillFrozen.
func frozenRing(t *testing.T) *keys.Ring {
	return Must(keys.Parse("k1:zN1itKvkTmKbTxiCt2rcV3ggI5QqiCzmP0aoJYeX+yk="))(t)
}

// FrozenFile unpacks a file of SQLite that has the first schema, with rows in every table but
// write_probe.
func FrozenFile(t *testing.T, packed string) (path string) {
	t.Helper()
	file := Must(os.Open(packed))(t)
	defer file.Close()
	path = TempFile(t)
	OK(t, os.WriteFile(path, Must(io.ReadAll(Must(gzip.NewReader(file))(t)))(t), 0o600))
	return path
}

// PackFile packs a SQLite file for FrozenFile, which unpacks it.
func PackFile(t *testing.T, path, packed string) {
	t.Helper()
	var text bytes.Buffer
	w := Must(gzip.NewWriterLevel(&text, gzip.BestCompression))(t)
	Must(w.Write(Must(os.ReadFile(path))(t)))(t)
	OK(t, w.Close())
	OK(t, os.MkdirAll(filepath.Dir(packed), 0o755))
	OK(t, os.WriteFile(packed, text.Bytes(), 0o644))
}

// FillFrozen writes rows into every table of the first schema but write_probe, through two fixtures
// of one database.
func FillFrozen(t *testing.T, early, late *Fixture) {
	sentOutcome := Sent
	sentOutcome.Provider, sentOutcome.ProviderCode, sentOutcome.Event = "mx.example", "250 2.0.0", early.NewEvent("send.sent")
	sent := early.Ended(t, early.Intent(1), sentOutcome)
	early.approve(t, sent.Verification.ID)
	early.Ended(t, early.Intent(2), store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true, BadAddress: true})
	early.sendTexts(t, 1, 0, text("+49151", "DE"))
	OK(t, early.RecordRefusals(t.Context(), []store.SendOrRefusal{early.Refusal(1, nil)}))

	OK(t, Err(late.AddKeyCheckValues(t.Context(), store.KeyCheckValues{"index key": make([]byte, 32)})))
	OK(t, late.AddAccount(t.Context(), store.Account{Name: "mei", Role: "owner", Password: "$argon2id$", MadeAt: FrozenAt}, late.Act()))
	OK(t, Err(late.BeginSession(t.Context(), store.Session{ID: frozenSession, Account: "mei"}, time.Hour, late.Act())))
	sealed := Must(frozenRing(t).Seal("frozen", []byte("a secret"), nil))(t)
	OK(t, Err(late.AddSecondFactor(t.Context(), store.SecondFactor{Account: "mei", Sealed: sealed}, late.Act())))
	late.suppress(t, 4, 24*time.Hour)
	late.ingest(t, true, store.ProviderEvent{Send: sent.Send.ID, Kind: store.ProviderComplained, Provider: "postmark"})
	OK(t, late.ExpectReceipt(t.Context(), store.PendingReceipt{Carrier: "twilio", ID: "SM1", Send: sent.Send.ID}, time.Minute))
	OK(t, err2(late.Spend(t.Context(), []store.SMSCharge{{Cap: "day", Per: "day", Amount: 7, Limit: 10}})))
	OK(t, late.AddCarrierHold(t.Context(), recipient.SMS, recipient.Hash{15: 5}, time.Hour))
	late.onePause(t, store.PrefixWatch{MinSends: 1, MinApprovedPercent: 10, TTL: 150 * time.Minute})
	OK(t, Err(late.AcquireJobLease(t.Context(), "watch", time.Hour)))
	OK(t, late.Erase(t.Context(), recipient.Hash{15: 2}, time.Hour, late.Act()))
	in := late.Intent(6, withCode("a caller's code"))
	late.claim(t, claim(1, in), store.IdempotencyClaimGranted)
	late.Admit(t, in)
	late.saveLimiterEvents(t, late.limiterEvent("net", "a", time.Hour))
	OK(t, Err(late.CountHours(t.Context(), 10*time.Minute, 1000*time.Hour, 10)))
}

// ReadFrozen reads what FillFrozen wrote, by a fixture on the clock FrozenLater.
func ReadFrozen(t *testing.T, f *Fixture) {
	who := recipient.Hash{15: 1}
	rows := Must(f.Sends(t.Context(), store.Filter{Recipient: &who, Status: store.Sent, Limit: 10}))(t)
	Equal(t, "sends", len(rows), 1)
	story := Must(f.SendDetails(t.Context(), rows[0].ID))(t)
	s, v := story.Send, story.Verification
	Equal(t, "send", []any{s.To, s.Network, s.Reference, s.LoggedAt, s.Provider, s.ProviderCode, s.Counts, s.WorstEvent},
		[]any{"a•••@example.com", "192.0.2.0/24", "order 7", FrozenAt, "mx.example", "250 2.0.0", true, store.ProviderComplained})
	Equal(t, "verification", []any{v.ApprovedAt, v.Attempts, v.Sealed, v.KeyID}, []any{FrozenAt, 1, []byte{0, 1, 255}, "k1"})
	Equal(t, "refusal", len(Must(f.Sends(t.Context(), store.Filter{Status: store.Refused, BlockedBy: "minute", Limit: 10}))(t)), 1)
	Equal(t, "wait", f.Refuse(t, f.Intent(1, WithRules(Rule(1, 24*time.Hour)))).History[0].At, FrozenAt)
	Equal(t, "account", Must(f.Account(t.Context(), "mei"))(t).Role, "owner")
	session, _ := must2(f.Session(t.Context(), frozenSession))(t)
	Equal(t, "session", session.Account, "mei")
	factor := Must(f.SecondFactor(t.Context(), "mei"))(t)
	Equal(t, "sealed", Must(frozenRing(t).Open("frozen", factor.Sealed, nil))(t), []byte("a secret"))
	Equal(t, "suppressed", f.Admit(t, f.Intent(4, to(4))).Send.Suppression != uuid.Nil, true)
	Equal(t, "receipt", Must(f.SendByMessageID(t.Context(), "twilio", "SM1"))(t), s.ID)
	_, refusedBy, err := f.Spend(t.Context(), []store.SMSCharge{{Cap: "day", Per: "day", Amount: 7, Limit: 10}})
	Equal(t, "cap", []any{refusedBy, err}, []any{"day", nil})
	_, paused := must2(f.PrefixPaused(t.Context(), "shop", "+49151", store.SecretKeyClass))(t)
	Equal(t, "paused", paused, true)
	Equal(t, "event", len(f.events(t, store.AppEventFilter{App: "shop"})), 1)
	stats := Must(f.Stats(t.Context(), store.StatsQuery{From: FrozenAt.Add(-time.Hour), To: FrozenLater, IntervalLength: time.Hour}))(t)
	Equal(t, "approved", stats.Approved, 1)
	again := claim(1, f.Intent(6))
	Equal(t, "repeated request", f.claim(t, again, store.IdempotencyClaimDone).Send.Status, store.Sending)
}

// RowCounts returns the number of rows of each table; tables is the SQL that selects the tables'
// names.
func RowCounts(t *testing.T, db *sql.DB, tables string) map[string]int {
	t.Helper()
	var names string
	OK(t, db.QueryRowContext(t.Context(), tables).Scan(&names))
	counts := map[string]int{}
	for _, name := range strings.Fields(names) {
		var n int
		OK(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+name).Scan(&n))
		counts[name] = n
	}
	return counts
}
