package audit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
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
	// Planned once: the arrays' lengths make each batch look different, and planning costs as much as deciding. The plan
	// can be no other anyway, see beginSQL.
	if _, err := conn.Exec(ctx, "SET plan_cache_mode = force_generic_plan"); err != nil {
		return err
	}
	// On an empty partition every index costs its first page. Were pages not nearly free here, indexes that differ by what they
	// leave to be filtered would count as equal, and any of them might be chosen for as long as the connection lives.
	if _, err := conn.Exec(ctx, "SET random_page_cost = 0.001"); err != nil {
		return err
	}
	decide := strings.NewReplacer(
		"{{now}}", p.now, "{{lead}}", interval(lead), "{{drift}}", interval(maxDrift),
		"{{failure window}}", interval(FailureWindow), "{{failure limit}}", strconv.Itoa(FailureLimit), "{{row window}}", interval(RowWindow), "{{row limit}}", strconv.Itoa(RowLimit),
		"{{verification}}", verificationColumns, "{{joined}}", strings.ReplaceAll(verificationColumns, "v.", "joined."),
	).Replace(beginSQL)
	for _, s := range []struct{ name, sql string }{
		// Not left to a default: under REPEATABLE READ the snapshot would be older than the lock.
		{stmtOpen, "BEGIN ISOLATION LEVEL READ COMMITTED"},
		{stmtLock, "SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key"},
		{stmtDecide, decide},
		{stmtCommit, "COMMIT"},
		{stmtFinish, p.sql(finishSQL)},
		{stmtFinishTelling, p.sql(finishTellingSQL)},
		{stmtPostpone, p.sql(postponeSQL)},
		{stmtEndEvents, p.sql(endEventsSQL)},
	} {
		if _, err := conn.Prepare(ctx, s.name, s.sql); err != nil {
			return err
		}
	}
	return nil
}

func interval(d time.Duration) string {
	return fmt.Sprintf("interval '%d microseconds'", d.Microseconds())
}

// Begin implements Log.
func (p *Postgres) Begin(ctx context.Context, intent Intent) (Begun, error) {
	in, err := checked(intent)
	if err != nil {
		return Begun{}, err
	}
	return p.begins.do(ctx, newCall(in, lockKey(in.Send)))
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
	var again []*call
	var locked []int
	for i, x := range batch {
		if err == nil {
			p.seen.Store(answers[i].now.UnixMicro())
		}
		switch {
		case err != nil:
			x.finish(Begun{}, err)
		case answers[i].repeated:
			x.finish(p.recall(ctx, x.in))
		case answers[i].drifted:
			x.finish(Begun{}, errDrifted(x.in.Send.ID, answers[i].now))
		case answers[i].elsewhere:
			again = append(again, x)
		case answers[i].lockedOut:
			locked = append(locked, i)
		default:
			x.finish(answers[i].begun(x.in), nil)
		}
	}
	for _, i := range locked { // the others have their answers
		batch[i].finish(p.lockout(ctx, batch[i].in, answers[i]))
	}
	if len(again) > 0 { // nothing of them was written; now it is known whereabouts the log's clock is
		p.decideWithin(ctx, again)
	}
}

// poisoned says that the data of one intent (classes 22, 23 and 54), or the lock on one recipient, made the statement
// fail. https://www.postgresql.org/docs/current/errcodes-appendix.html
func poisoned(err error) bool {
	c := code(err)
	return aborted(err) && (slices.Contains([]string{"22", "23", "54"}, c[:min(2, len(c))]) || c == lockNotAvailable || c == "57014")
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

// lockout answers a call that the bounds on failed checks refused. Until when is read by itself: it is asked for under attack alone.
func (p *Postgres) lockout(ctx context.Context, in Intent, d decision) (Begun, error) {
	v := in.Verification
	v.ByBrowser = d.byBrowser
	out, err := p.LockedOut(ctx, v)
	if out.Wait <= 0 { // it ended since
		out.Wait = time.Second
	}
	return lockedOut(in, d.now, out), err
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
