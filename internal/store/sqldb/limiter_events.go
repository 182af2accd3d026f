package sqldb

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

// limiterEventsLockKey is the key of an advisory lock under which replicas write one after the
// other, so that rows' numbers grow in the order of commits.
const limiterEventsLockKey = 0x73656e64636f6476

// refundedEventLife is how long a refunded or reset event's row stays for other replicas to read.
const refundedEventLife = time.Minute

// changesSQL reads events from a parameter that limiterEventsJSON made. list is its name.
func (d dialect) changesSQL(list string) string {
	return d.pick(dialectSQL{
		`(SELECT decode(x.value ->> 0, 'hex') AS bucket, decode(x.value ->> 1, 'hex') AS id,
    timestamptz 'epoch' + (x.value ->> 2)::bigint * interval '1 microsecond' AS at,
    timestamptz 'epoch' + (x.value ->> 3)::bigint * interval '1 microsecond' AS until
  FROM jsonb_array_elements(CAST(CAST(@` + list + ` AS text) AS jsonb)) AS x(value))`,
		`(SELECT unhex(x.value ->> 0) AS bucket, unhex(x.value ->> 1) AS id, x.value ->> 2 AS at, x.value ->> 3 AS until FROM json_each(@` +
			list + `) x)`,
	})
}

// endEventsSQL marks as refunded the rows of events that a refund or a reset ended. list names the
// parameter with these events, c, and same is the condition that joins them to rows e. The INSERT
// gives each row a new number, so that other replicas read it again.
func (d dialect) endEventsSQL(list, same string) string {
	return `
INSERT INTO limiter_events (bucket, id, at, until, refunded, writer)
SELECT e.bucket, e.id, e.at, @now + CAST(@life AS interval), CAST(@refunded AS boolean), CAST(@writer AS bigint)
FROM ` + d.changesSQL(list) + ` c CROSS JOIN limiter_events e WHERE ` + same + ` AND e.refunded = @counts
ON CONFLICT (bucket, id) DO UPDATE SET until = excluded.until, refunded = @refunded, writer = excluded.writer, seq = excluded.seq`
}

// addEventsSQL lets an event that still counts keep its instant, as the limiter does.
func (d dialect) addEventsSQL() string {
	return `
INSERT INTO limiter_events AS e (bucket, id, at, until, writer) SELECT c.bucket, c.id, c.at, c.until, CAST(@writer AS bigint)
FROM ` + d.changesSQL("added") + ` c WHERE true
ON CONFLICT (bucket, id) DO UPDATE SET at = excluded.at, until = excluded.until, refunded = @counts, writer = excluded.writer, seq = excluded.seq
WHERE e.refunded = @refunded OR e.until <= @now`
}

// SaveLimiterEvents writes a limiter's changes in one transaction: first what a reset or a refund
// ended, then what was added. writer is a random number of the process. A row of an added event
// that still counts stays as it is.
func (db *DB) SaveLimiterEvents(ctx context.Context, writer int64, changes []store.LimiterEvent) error {
	var added, refunded, reset []store.LimiterEvent
	for _, e := range changes {
		switch {
		case e.ID == "":
			reset = append(reset, e)
		case e.Refunded:
			refunded = append(refunded, e)
		default:
			added = append(added, e)
		}
	}
	d := db.Dialect
	args := Args{
		"writer": writer, "life": refundedEventLife, "key": int64(limiterEventsLockKey), "refunded": true, "counts": false,
		"added": limiterEventsJSON(added), "ended": limiterEventsJSON(refunded), "reset": limiterEventsJSON(reset),
	}
	var steps []*Statement
	for _, x := range []struct {
		sql string
		due bool
	}{
		{d.pick(advisoryLockSQL), d == Postgres},
		{d.endEventsSQL("reset", "e.bucket = c.bucket"), len(reset) > 0},
		{d.endEventsSQL("ended", "e.bucket = c.bucket AND e.id = c.id"), len(refunded) > 0},
		{d.addEventsSQL(), len(added) > 0},
	} {
		if x.due {
			steps = append(steps, &Statement{SQL: x.sql, Args: args})
		}
	}
	return db.Run(ctx, "SaveLimiterEvents", Behind, steps...)
}

// limiterEventsJSON returns [["bucket", "id", at, until], …], with hex and µs since 1970.
func limiterEventsJSON(events []store.LimiterEvent) string {
	list := []byte{'['}
	for i, e := range events {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(hex.AppendEncode(append(list, `["`...), e.Bucket), `","`...)
		list = append(hex.AppendEncode(list, []byte(e.ID)), `",`...)
		list = append(strconv.AppendInt(list, e.At.UnixMicro(), 10), ',')
		list = append(strconv.AppendInt(list, e.Until.UnixMicro(), 10), ']')
	}
	return string(append(list, ']'))
}

// LimiterEvents calls yield for each event numbered above after with Until in the future, including
// refunded ones and those that reader wrote. Postgres yields at most limit, in the order of their
// numbers. SQLite, which has one process, yields all in any order.
func (db *DB) LimiterEvents(ctx context.Context, reader, after int64, limit int, yield func(store.LimiterEvent) error) error {
	order := db.Dialect.pick(dialectSQL{Postgres: ` ORDER BY seq LIMIT @limit`})
	return db.Read(ctx, "LimiterEvents", func(q Tx) error {
		_, err := q.Run(`
SELECT bucket, id, at, until, refunded, seq, writer = @reader FROM limiter_events WHERE seq > @after AND until > @now`+order,
			Args{"reader": reader, "after": after, "limit": limit}, func(read Scan) error {
				var e store.LimiterEvent
				var id []byte
				err := read(&e.Bucket, &id, sqlgen.ScannerFor(&e.At), sqlgen.ScannerFor(&e.Until), &e.Refunded, &e.Seq, &e.Own)
				if err != nil {
					return err
				}
				e.ID = string(id)
				return yield(e)
			})
		return err
	})
}

// DeleteLimiterEvents deletes the events with numbers up to and including last, which the caller
// has copied to Redis.
func (db *DB) DeleteLimiterEvents(ctx context.Context, last int64) error {
	_, err := db.runOne(ctx, "DeleteLimiterEvents", `DELETE FROM limiter_events WHERE seq <= @last`, Args{"last": last})
	return err
}
