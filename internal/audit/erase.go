package audit

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/recipient"
)

// A recipient may have themselves erased. What is left is the keyed hash where it counts, so that being erased frees no
// quota (SEC-12), and how many there were of what; once every window has passed the hash goes, too.

// ReasonErased is the reason of a send that ended because its recipient was erased.
const ReasonErased = "erased"

// Eraser is the part of the log that forgets people.
type Eraser interface {
	// Erase takes from every row what tells of the recipient but the keyed hash, ends their codes and the sends that wait for
	// their next attempt (Failed, ReasonErased; they keep their places), and has Forget take the hash after keep. A send that
	// an attempt holds right now ends as that attempt does. The act, written with it, keeps the hash for as long.
	Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act Act) error
	// Forget takes the hash out of the rows of those who were erased and whose time has come, and says how many they were.
	Forget(ctx context.Context) (int, error)
}

// nobody stands for the hash of somebody who was forgotten: nobody's.
var nobody recipient.Hash

// personal says, of each table that tells of a recipient, how that is taken out of the rows of one: $1 is the hash, {{now}}
// the log's instant. A table that somebody adds and leaves out here fails TestEveryColumnIsErased.
var personal = []struct {
	table, erase, forget string
	counted              bool // there in Postgres alone, which counts ahead
}{
	{
		// First, while the rows still tell the domain: who is erased leaves no domain behind that only they had.
		table: "hour_domains", counted: true,
		erase: `
WITH mine AS MATERIALIZED (
    SELECT date_trunc('hour', s.logged_at, 'UTC') AS hour, s.app, s.channel, s.purpose, ` + pgDomain + ` AS domain, count(*) AS sends,
           count(*) FILTER (WHERE s.status = 'failed') AS failed, count(*) FILTER (WHERE s.status = 'failed' AND s.reason = '` + ReasonRejected + `') AS rejected
    FROM sends s WHERE s.recipient = $1 AND s.masked <> '•••' AND s.status <> 'refused' AND ` + pgDomain + ` <> '' GROUP BY 1, 2, 3, 4, 5
), fewer AS (
    UPDATE hour_domains d SET sends = d.sends - m.sends, failed = d.failed - m.failed, rejected = d.rejected - m.rejected
    FROM mine m WHERE (d.hour, d.app, d.channel, d.purpose, d.domain) = (m.hour, m.app, m.channel, m.purpose, m.domain) AND d.sends > m.sends
)
DELETE FROM hour_domains d USING mine m
WHERE (d.hour, d.app, d.channel, d.purpose, d.domain) = (m.hour, m.app, m.channel, m.purpose, m.domain) AND d.sends <= m.sends`,
	},
	{
		table: "sends",
		erase: `
UPDATE sends SET masked = '•••', country = '', prefix = '', reference = '', ip = '', locale = '',
       reason = CASE WHEN status = 'queued' THEN 'erased' ELSE reason END,
       finished_at = CASE WHEN status = 'queued' THEN {{now}} ELSE finished_at END,
       due_at = CASE WHEN status = 'queued' THEN NULL ELSE due_at END,
       status = CASE WHEN status = 'queued' THEN 'failed' ELSE status END
WHERE recipient = $1 AND masked <> '•••'`,
		forget: `UPDATE sends SET recipient = $2 WHERE recipient = $1 AND masked = '•••'`,
	},
	{
		table: "verifications",
		erase: `
UPDATE verifications SET masked = '•••', sealed = NULL, holder = '', nonce = {{empty}}, locale = '', reference = '',
       canceled_at = CASE WHEN approved_at IS NULL AND canceled_at IS NULL AND expires_at > {{now}} THEN {{now}} ELSE canceled_at END
WHERE recipient = $1 AND masked <> '•••'`,
		forget: `UPDATE verifications SET recipient = $2 WHERE recipient = $1 AND masked = '•••'`,
	},
	{
		table:  "act_people",
		erase:  `UPDATE act_people SET masked = '•••' WHERE recipient = $1 AND masked <> '•••'`,
		forget: `UPDATE act_people SET recipient = NULL WHERE recipient = $1 AND masked = '•••' AND $2 <> $1`,
	},
	{
		table:  "embargoes", // a hash and its times: what is erased is nothing
		forget: `DELETE FROM embargoes WHERE recipient = $1 AND recipient <> $2 AND until <= {{now}}`,
	},
	{
		// While a suppression holds, its hash keeps mail from them; so it is forgotten when it has run out.
		table: "suppressions",
		erase: `
UPDATE suppressions SET masked = '•••', detail = CASE WHEN reason = 'manual' THEN '' ELSE detail END, lifted_why = ''
WHERE recipient = $1 AND masked <> '•••'`,
		forget: `
UPDATE suppressions SET recipient = $2, address = $2
WHERE recipient = $1 AND masked = '•••' AND (lifted_at IS NOT NULL OR until <= {{now}})`,
	},
}

const (
	// An erasure that comes after another one keeps what was erased before for as long as what is erased now.
	addErasureSQL = `
INSERT INTO erasures (recipient, erased_at, forget_at) VALUES ($1, {{now}}, {{later}})
ON CONFLICT (recipient) DO UPDATE SET erased_at = excluded.erased_at, forget_at = excluded.forget_at`

	dueErasuresSQL   = `SELECT recipient FROM erasures WHERE forget_at <= {{now}} ORDER BY forget_at LIMIT 100`
	putOffErasureSQL = `
UPDATE erasures SET forget_at = (SELECT max(x.until) FROM suppressions x WHERE x.recipient = $1 AND x.masked = '•••')
WHERE recipient = $1 AND EXISTS (SELECT 1 FROM suppressions x WHERE x.recipient = $1 AND x.masked = '•••')`
	endErasureSQL = `DELETE FROM erasures WHERE recipient = $1 AND forget_at <= {{now}}`
)

// forgetting is done to one recipient, in this order.
func forgetting() []string {
	var statements []string
	for _, p := range personal {
		if p.forget != "" {
			statements = append(statements, p.forget)
		}
	}
	return append(statements, putOffErasureSQL, endErasureSQL)
}

// eraseTimeout bounds what Postgres does for one recipient: an attack may have left them many rows.
const eraseTimeout = "60s"

func checkErased(h recipient.Hash, keep time.Duration, act Act) (Act, error) {
	if h.IsZero() || keep <= 0 {
		return act, bad("nobody to erase, or for no time")
	}
	act.Recipient, act.To = h, Erased
	return act.checked()
}

// Erase implements Log.
func (m *Memory) Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act Act) (err error) {
	act, err = checkErased(h, keep, act)
	if err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "Erase")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	for _, r := range m.rows {
		if r.Recipient == h && r.To != Erased {
			r.To, r.Country, r.Prefix, r.Reference, r.IP, r.Locale = Erased, "", "", "", "", ""
			if r.Status == Queued {
				r.Status, r.Reason, r.FinishedAt, r.DueAt = Failed, ReasonErased, now, time.Time{}
			}
		}
	}
	for _, v := range m.verifications {
		if v.Recipient == h && v.To != Erased {
			v.To, v.Sealed, v.Holder, v.Nonce, v.Locale, v.Reference = Erased, nil, "", []byte{}, "", ""
			if open(*v, now) {
				v.CanceledAt = now
			}
		}
	}
	for i := range m.acts {
		if m.acts[i].Recipient == h {
			m.acts[i].To = Erased
		}
	}
	for _, s := range m.suppressions {
		if s.Recipient == h && s.To != Erased {
			s.To, s.LiftedWhy = Erased, ""
			if s.Cause == Manual {
				s.Detail = ""
			}
		}
	}
	m.erasures[h] = now.Add(keep.Truncate(time.Microsecond))
	m.addAct(act, now)
	return nil
}

// Forget implements Log.
func (m *Memory) Forget(ctx context.Context) (n int, err error) {
	now, lost, err := m.enter(ctx, "Forget")
	if err != nil {
		return 0, err
	}
	defer m.leave(lost, &err)
	for h, at := range m.erasures {
		if at.After(now) {
			continue
		}
		delete(m.erasures, h)
		if until := m.forgetOne(h, now); !until.IsZero() {
			m.erasures[h] = until
		}
		n++
	}
	return n, nil
}

// forgetOne is how long a suppression still needs the hash, if any does.
func (m *Memory) forgetOne(h recipient.Hash, now time.Time) (until time.Time) {
	maps.DeleteFunc(m.embargoes, func(key embargoKey, e embargoed) bool { return key.recipient == h && !e.until.After(now) })
	for _, s := range m.suppressions {
		if s.Recipient != h || s.To != Erased {
			continue
		}
		if s.Active(now) {
			until = later(until, s.Until)
		} else {
			s.Recipient, s.Address = nobody, nobody
		}
	}
	for _, r := range m.rows {
		if r.Recipient == h && r.To == Erased {
			old := r.bucket()
			m.buckets[old] = slices.DeleteFunc(m.buckets[old], func(x *memoryRow) bool { return x == r })
			r.Recipient = nobody
			m.buckets[r.bucket()] = append(m.buckets[r.bucket()], r)
		}
	}
	for _, v := range m.verifications {
		if v.Recipient == h && v.To == Erased {
			v.Recipient = nobody
		}
	}
	for i := range m.acts {
		if m.acts[i].Recipient == h && m.acts[i].To == Erased {
			m.acts[i].Recipient = nobody
		}
	}
	return until
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Erase implements Log. The file keeps nothing of it either: what a row gives up is overwritten (secure_delete), and the
// write-ahead log is emptied where no reader needs it just now.
func (s *SQLite) Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act Act) error {
	act, err := checkErased(h, keep, act)
	if err != nil {
		return err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		words := strings.NewReplacer("{{now}}", "$2", "{{later}}", "$3", "{{empty}}", "x''")
		for _, p := range personal {
			if p.erase == "" || p.counted {
				continue
			}
			args := []any{h[:], µs(now)}
			if !strings.Contains(p.erase, "{{now}}") {
				args = args[:1]
			}
			if _, err := tx.ExecContext(ctx, words.Replace(p.erase), args...); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, words.Replace(addErasureSQL), h[:], µs(now), µs(now)+keep.Microseconds()); err != nil {
			return err
		}
		return sqliteAct(ctx, tx, act, now)
	})
	if err != nil {
		return err
	}
	return s.emptyWAL(ctx)
}

// emptyWAL brings what was written into the file itself and leaves nothing beside it, unless a reader needs it just now.
func (s *SQLite) emptyWAL(ctx context.Context) error {
	_, err := s.writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return unavailable(err)
}

// Forget implements Log.
func (s *SQLite) Forget(ctx context.Context) (n int, err error) {
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		rows, err := tx.QueryContext(ctx, strings.ReplaceAll(dueErasuresSQL, "{{now}}", "$1"), µs(now))
		if err != nil {
			return err
		}
		due, err := collect(rows, func(h *recipient.Hash) []any { return []any{hashField{h}} })
		if err != nil {
			return err
		}
		for _, h := range due {
			for _, statement := range forgetting() {
				if err := sqliteForget(ctx, tx, statement, h, now); err != nil {
					return err
				}
			}
		}
		n = len(due)
		return nil
	})
	if err != nil || n == 0 {
		return 0, err
	}
	return n, s.emptyWAL(ctx)
}

func sqliteForget(ctx context.Context, tx *sql.Tx, statement string, h recipient.Hash, now time.Time) error {
	statement = strings.NewReplacer("$1", ":hash", "$2", ":nobody", "{{now}}", ":now").Replace(statement)
	var args []any
	for _, arg := range []struct {
		name  string
		value any
	}{{":hash", h[:]}, {":nobody", nobody[:]}, {":now", µs(now)}} {
		if strings.Contains(statement, arg.name) {
			args = append(args, sql.Named(arg.name[1:], arg.value))
		}
	}
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}

// Erase implements Log.
func (p *Postgres) Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act Act) error {
	act, err := checkErased(h, keep, act)
	if err != nil {
		return err
	}
	words := strings.NewReplacer("{{now}}", p.now, "{{later}}", p.now+" + $2 * interval '1 microsecond'", "{{empty}}", "''::bytea")
	return p.inTransaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '"+eraseTimeout+"'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(countLock)); err != nil { // nothing is counted meanwhile
			return err
		}
		for _, x := range personal {
			if x.erase == "" {
				continue
			}
			if _, err := tx.Exec(ctx, words.Replace(x.erase), h[:]); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, words.Replace(addErasureSQL), h[:], keep.Microseconds()); err != nil {
			return err
		}
		return p.addAct(ctx, tx, act)
	})
}

// Forget implements Log. Replicas may do it at once: each person is one's alone.
func (p *Postgres) Forget(ctx context.Context) (n int, err error) {
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '"+eraseTimeout+"'"); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, strings.ReplaceAll(dueErasuresSQL, "{{now}}", p.now)+" FOR UPDATE SKIP LOCKED")
		due, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		if err != nil {
			return err
		}
		for _, h := range due {
			for _, statement := range forgetting() {
				args := []any{h, nobody[:]}
				if !strings.Contains(statement, "$2") {
					args = args[:1]
				}
				if _, err := tx.Exec(ctx, p.sql(statement), args...); err != nil {
					return err
				}
			}
		}
		n = len(due)
		return nil
	})
	return n, err
}
