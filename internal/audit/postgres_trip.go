package audit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/quota"
)

// decision is one row that postgres_begin.sql answers.
type decision struct {
	now         time.Time
	repeated    bool
	room        bool
	drifted     bool // the ID's time is too far from the log's clock
	elsewhere   bool // the log's clock is not where it was thought to be, or in none of the periods that a rule was told: nothing was decided
	ids         []uuid.UUID
	ages        []int64     // µs
	failed      []uuid.UUID // as ids and ages, of what was rejected
	failedFor   []int64
	suppression uuid.UUID
	lockedOut   bool         // the rules let it in, and the bounds on failed checks do not let its code be tried
	byBrowser   bool         // the kind of caller whose failed checks those are
	joined      Verification // zero: a new one was opened
}

// roundTrip sends begin, locks, decision and commit in one go. With an error, sure says that it was not committed.
func (p *Postgres) roundTrip(ctx context.Context, batch []*call) (answers []decision, sure bool, err error) {
	conn, err := p.writers.Acquire(ctx)
	if err != nil {
		return nil, true, err
	}
	defer conn.Release() // destroys it where the transaction is still open
	answers, sure, err = converse(ctx, conn, batch, time.UnixMicro(p.seen.Load()))
	if readOnly(err) {
		_ = conn.Conn().Close(ctx)
	}
	return answers, sure, err
}

func converse(ctx context.Context, conn *pgxpool.Conn, batch []*call, near time.Time) (answers []decision, sure bool, err error) {
	var b pgx.Batch
	b.Queue(stmtOpen)
	b.Queue(stmtLock, keys(batch))
	b.Queue(stmtDecide, parameters(batch, near)...)
	b.Queue(stmtCommit)
	results := conn.SendBatch(ctx, &b)
	defer results.Close()
	// Up to here the server has not come to the COMMIT, for it answers in order: its own word that it ended before is
	// certain. Silence is not: everything is on its way.
	for range 2 { // begin, locks
		if _, err := results.Exec(); err != nil {
			return nil, spoke(err), err
		}
	}
	rows, _ := results.Query()
	answers, err = pgx.CollectRows(rows, scanDecision)
	if err != nil {
		return nil, spoke(err), err
	}
	tag, err := results.Exec()
	if err != nil {
		// Now only an ERROR says that it was undone; a FATAL may follow upon a commit.
		return nil, aborted(err) || pgconn.SafeToRetry(err), err
	}
	if tag.String() != "COMMIT" || len(answers) != len(batch) {
		return nil, tag.String() == "ROLLBACK", errors.New("audit: transaction was not committed as asked: " + tag.String())
	}
	return answers, false, nil
}

// spoke says that the server itself told of the failure, or that nothing was sent to it.
func spoke(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) || pgconn.SafeToRetry(err)
}

func scanDecision(row pgx.CollectableRow) (decision, error) {
	var d decision
	var joined *string
	fields := append([]any{timeField{&d.now}, &d.repeated, &d.room, &d.elsewhere, &d.drifted, &d.ids, &d.ages, &d.failed, &d.failedFor, maybeIDField{&d.suppression}, &d.lockedOut, &d.byBrowser}, d.joined.fields()...)
	all := slices.Clone(fields)
	own := len(fields) - len(d.joined.fields())
	clear(fields[own:]) // nil: not read, for there is none as a rule
	fields[own] = &joined
	if err := row.Scan(fields...); err != nil || joined == nil {
		return d, err
	}
	return d, row.Scan(all...)
}

// begun is the answer to the intent that the decision is about.
func (d decision) begun(in Intent) Begun {
	events, failed := d.before(in, d.ids, d.ages), d.before(in, d.failed, d.failedFor)
	if !d.room {
		return refused(in, d.now, events, failed)
	}
	v := d.joined
	if v.ID == "" {
		v = opened(in, d.now)
		v.Sends = 1
	}
	return admitted(in, v, written(in, v, v.Sends, d.suppression, d.now), d.now, events, failed)
}

// before are the events of the ages given, in µs.
func (d decision) before(in Intent, ids []uuid.UUID, ages []int64) []quota.Event {
	at := instant(in, d.now)
	var events []quota.Event
	for i, id := range ids {
		events = append(events, quota.Event{ID: string(id[:]), At: at.Add(-time.Duration(ages[i]) * time.Microsecond)})
	}
	return ordered(events)
}
