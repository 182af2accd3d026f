package audit

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/quota"
)

//go:embed postgres_begin.sql
var beginSQL string

// The statements of a round trip, prepared on each connection of the writers: no answer is then waited for between them.
const (
	stmtOpen   = "sendcode_open"
	stmtLock   = "sendcode_lock"
	stmtDecide = "sendcode_decide"
	stmtCommit = "sendcode_commit"
)

// beginTimeout bounds a Begin with all that it tries; it is less than callers wait, so that they hear what came of it.
const beginTimeout = 4 * time.Second

func (p *Postgres) prepareBegin(ctx context.Context, conn *pgx.Conn) error {
	decide := strings.NewReplacer(
		"{{now}}", p.now, "{{verification}}", verificationColumns, "{{joined}}", strings.ReplaceAll(verificationColumns, "v.", "joined."),
	).Replace(beginSQL)
	for _, s := range []struct{ name, sql string }{
		// Not left to a default: under REPEATABLE READ the snapshot would be older than the lock.
		{stmtOpen, "BEGIN ISOLATION LEVEL READ COMMITTED"},
		{stmtLock, "SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key"},
		{stmtDecide, decide},
		{stmtCommit, "COMMIT"},
	} {
		if _, err := conn.Prepare(ctx, s.name, s.sql); err != nil {
			return err
		}
	}
	return nil
}

// Begin implements Log.
func (p *Postgres) Begin(ctx context.Context, intent Intent) (Begun, error) {
	in, err := checked(intent)
	if err != nil {
		return Begun{}, err
	}
	return p.begins.do(ctx, newCall(in, lockKey(in.Send)))
}

// lockKey names a recipient's buckets. Two recipients with one key only wait for each other.
func lockKey(s Send) int64 {
	h := fnv.New64a()
	h.Write([]byte(s.App + "\x00" + string(s.Channel) + "\x00"))
	h.Write(s.Recipient[:])
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

// decide answers a batch: every call gets its answer, whatever happens.
func (p *Postgres) decide(batch []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), beginTimeout)
	defer cancel()
	p.decideWithin(ctx, batch)
}

func (p *Postgres) decideWithin(ctx context.Context, batch []*call) {
	answers, err := p.attempt(ctx, batch)
	if len(batch) > 1 && poisoned(err) {
		// One of them fails the others; alone it fails itself.
		for _, x := range batch {
			p.decideWithin(ctx, []*call{x})
		}
		return
	}
	for i, x := range batch {
		switch {
		case err != nil:
			x.finish(Begun{}, err)
		case answers[i].repeated:
			x.finish(p.recall(ctx, x.in))
		default:
			x.finish(answers[i].begun(x.in), nil)
		}
	}
}

// poisoned says that the data of one intent (classes 22, 23 and 54), or the lock on one recipient, made the statement
// fail. https://www.postgresql.org/docs/current/errcodes-appendix.html
func poisoned(err error) bool {
	c := code(err)
	return aborted(err) && (slices.Contains([]string{"22", "23", "54"}, c[:min(2, len(c))]) || c == "55P03" || c == "57014")
}

// attempt makes a round trip, and a second one where the first failed with its connection or lost a race. That is safe
// even when the first may have been committed: a row that is there already is found by its ID and answered, and a first
// round trip that the server is still working on finds the second one's.
func (p *Postgres) attempt(ctx context.Context, batch []*call) ([]decision, error) {
	answers, sure, err := p.roundTrip(ctx, batch)
	if err == nil || ctx.Err() != nil || !connectionLost(err) && !readOnly(err) && !strings.HasPrefix(code(err), "40") {
		return answers, outcome(sure, err)
	}
	if connectionLost(err) {
		p.writers.Reset()
	}
	answers, again, second := p.roundTrip(ctx, batch)
	if second == nil {
		return answers, nil
	}
	return nil, outcome(sure && again, errors.Join(err, second))
}

// outcome is the error of a write, of which we are or are not sure that it was not committed.
func outcome(sure bool, err error) error {
	if err == nil || sure {
		return unavailable(err)
	}
	return uncertain(err)
}

// decision is one row that postgres_begin.sql answers.
type decision struct {
	now      time.Time
	repeated bool
	room     bool
	ids      []uuid.UUID
	ages     []int64      // µs
	joined   Verification // zero: a new one was opened
}

// roundTrip sends begin, locks, decision and commit in one go. With an error, sure says that it was not committed.
func (p *Postgres) roundTrip(ctx context.Context, batch []*call) (answers []decision, sure bool, err error) {
	conn, err := p.writers.Acquire(ctx)
	if err != nil {
		return nil, true, err
	}
	defer conn.Release() // destroys it where the transaction is still open
	answers, sure, err = converse(ctx, conn, batch)
	if readOnly(err) {
		_ = conn.Conn().Close(ctx)
	}
	return answers, sure, err
}

func converse(ctx context.Context, conn *pgxpool.Conn, batch []*call) (answers []decision, sure bool, err error) {
	var b pgx.Batch
	b.Queue(stmtOpen)
	b.Queue(stmtLock, keys(batch))
	b.Queue(stmtDecide, parameters(batch)...)
	b.Queue(stmtCommit)
	results := conn.SendBatch(ctx, &b)
	defer results.Close()
	// Up to here the server has not come to the COMMIT, for it answers in order: its own word that it ended before is
	// certain. Silence is not: everything is on its way.
	if _, err := results.Exec(); err != nil {
		return nil, spoke(err), err
	}
	if _, err := results.Exec(); err != nil {
		return nil, spoke(err), err
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
	fields := append([]any{timeField{&d.now}, &d.repeated, &d.room, &d.ids, &d.ages}, d.joined.fields()...)
	all := slices.Clone(fields)
	clear(fields[5:]) // nil: not read, for there is none as a rule
	fields[5] = &joined
	if err := row.Scan(fields...); err != nil || joined == nil {
		return d, err
	}
	return d, row.Scan(all...)
}

// begun is the answer to the intent that the decision is about.
func (d decision) begun(in Intent) Begun {
	if !d.room {
		return refused(in, d.now, d.history(in))
	}
	v := d.joined
	if v.ID == "" {
		v = opened(in, d.now)
		v.Sends = 1
	}
	return Begun{Admitted: true, Verification: v, Send: written(in, v, v.Sends, d.now), Now: d.now, Clock: LogClock}
}

func (d decision) history(in Intent) []quota.Event {
	at := instant(in, d.now)
	var events []quota.Event
	for i, id := range d.ids {
		events = append(events, quota.Event{ID: string(id[:]), At: at.Add(-time.Duration(d.ages[i]) * time.Microsecond)})
	}
	return ordered(events)
}

// recall answers a call whose row is there already.
func (p *Postgres) recall(ctx context.Context, in Intent) (Begun, error) {
	story, err := p.Story(ctx, in.Send.ID)
	if err != nil {
		return Begun{}, uncertain(err)
	}
	var v Verification
	if story.Verification != nil {
		v = *story.Verification
	}
	return repeated(in, story.Send, v)
}

// keys are sorted, so that two replicas that lock the same recipients do not wait for each other in a circle.
func keys(batch []*call) []int64 {
	list := make([]int64, len(batch))
	for i, x := range batch {
		list[i] = x.key
	}
	slices.Sort(list)
	return list
}

// column makes one parameter out of one part of every call.
func column[T any](batch []*call, part func(*Intent) T) []T {
	list := make([]T, len(batch))
	for i, x := range batch {
		list[i] = part(&x.in)
	}
	return list
}

// parameters are those of postgres_begin.sql, in its order.
func parameters(batch []*call) []any {
	text := func(part func(*Intent) string) []string { return column(batch, part) }
	µs := func(part func(*Intent) time.Duration) []int64 {
		return column(batch, func(in *Intent) int64 { return part(in).Microseconds() })
	}
	return []any{
		column(batch, func(in *Intent) [16]byte { return in.Send.ID }),
		text(func(in *Intent) string { return in.Send.App }),
		text(func(in *Intent) string { return string(in.Send.Channel) }),
		text(func(in *Intent) string { return in.Send.Purpose }),
		column(batch, func(in *Intent) []byte { return in.Send.Recipient[:] }),
		text(func(in *Intent) string { return in.Send.To }),
		text(func(in *Intent) string { return in.Send.Locale }),
		text(func(in *Intent) string { return in.Send.Reference }),
		text(func(in *Intent) string { return in.Send.IP }),
		column(batch, func(in *Intent) *time.Time { return known(in.Send.TakenAt) }),
		text(func(in *Intent) string { return in.Send.Clock }),
		µs(func(in *Intent) time.Duration { return in.Lease }),
		text(func(in *Intent) string { return strings.Join(in.Purposes, separator) }),
		text(func(in *Intent) string { return list(in.Rules, func(r quota.Rule) int64 { return int64(r.Limit) }) }),
		text(func(in *Intent) string {
			return list(in.Rules, func(r quota.Rule) int64 { return r.Window.Microseconds() })
		}),
		µs(func(in *Intent) time.Duration { return quota.Longest(in.Rules) }),
		text(func(in *Intent) string { return in.Join }),
		µs(func(in *Intent) time.Duration { return in.MinLife }),
		text(func(in *Intent) string { return in.Verification.ID }),
		column(batch, func(in *Intent) []byte { return in.Verification.Sealed }),
		text(func(in *Intent) string { return in.Verification.Holder }),
		column(batch, func(in *Intent) []byte { return nonNil(in.Verification.Nonce) }),
		text(func(in *Intent) string { return in.Verification.KeyID }),
		column(batch, func(in *Intent) int32 { return int32(in.Verification.CodeLength) }),
		µs(func(in *Intent) time.Duration { return in.Life }),
		column(batch, func(in *Intent) int32 { return int32(in.Verification.MaxAttempts) }),
	}
}

// list writes a number of each rule as an array of Postgres: arrays of arrays would have to be of one length.
func list(rules []quota.Rule, number func(quota.Rule) int64) string {
	b := []byte{'{'}
	for i, r := range rules {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, number(r), 10)
	}
	return string(append(b, '}'))
}

// known is nil for the zero time, which is NULL.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
