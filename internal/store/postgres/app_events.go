package postgres

import (
	"context"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// endEventsSQL closes a batch of attempts, as finishSQL closes sends.
const endEventsSQL = `
WITH clock AS MATERIALIZED (SELECT {{now}} AS now)
UPDATE app_events e SET state = o.state, answer = o.answer,
       due_at = CASE WHEN o.state = 'pending' THEN clock.now + o.after * interval '1 microsecond' END,
       ended_at = CASE WHEN o.state <> 'pending' THEN clock.now END
FROM clock, unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::bigint[]) AS o(id, attempt, state, answer, after)
WHERE e.id = ANY ($1::uuid[]) AND e.id = o.id AND e.attempt = o.attempt AND e.due_at IS NOT NULL
RETURNING e.id`

// AppEventEnded implements AppEvents. Ends that come while a round trip is under way share the next one.
func (p *DB) AppEventEnded(ctx context.Context, end store.AppEventEnd) (bool, error) {
	e, err := end.Checked()
	if err != nil {
		return false, err
	}
	return p.eventEnds.do(ctx, newWaiting[store.AppEventEnd, bool](e, sendKey(e.Held)))
}

func (p *DB) endEvents(batch []*eventEnd) {
	changeTogether(p, stmtEndEvents, batch, eventEnds, func(e store.AppEventEnd) uuid.UUID { return e.ID })
}

// eventEnds are the parameters of endEventsSQL.
func eventEnds(batch []*eventEnd) []any {
	n := len(batch)
	ids, attempts, after := make([][16]byte, n), make([]int32, n), make([]int64, n)
	states, answers := make([]string, n), make([]string, n)
	for i, x := range batch {
		e := &x.in
		ids[i], attempts[i], after[i] = e.ID, int32(e.Attempt), e.After.Microseconds()
		states[i], answers[i] = string(e.State), e.Answer
	}
	return []any{ids, attempts, states, answers, after}
}
