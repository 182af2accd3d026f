package main

import (
	"context"
	"hash/fnv"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// take admits 1 event in a minute, 5 in an hour and 10 in a day.
var take = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 86400000000)
for window, limit in pairs({[60] = 1, [3600] = 5, [86400] = 10}) do
	if redis.call('ZCOUNT', KEYS[1], string.format('(%.0f', now - window * 1000000), '+inf') >= limit then return 0 end
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], 86400000)
return 1`)

const tables = `
CREATE TABLE IF NOT EXISTS verifications (
	id text PRIMARY KEY, recipient text NOT NULL, nonce bytea NOT NULL, attempts int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, approved_at timestamptz);
CREATE TABLE IF NOT EXISTS sends (
	id uuid PRIMARY KEY, verification text NOT NULL, recipient text NOT NULL, purpose text NOT NULL, status text NOT NULL,
	at timestamptz NOT NULL, finished_at timestamptz) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS sends_recipient ON sends (recipient, at)`

// The lock is a separate statement, so that the snapshot of the count is younger than the lock.
const (
	lockSQL  = `SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key`
	writeSQL = `
WITH admitted AS MATERIALIZED (
	SELECT a.*, now.at FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[]) AS a(id, verification, recipient, purpose, nonce)
	CROSS JOIN (SELECT clock_timestamp() AS at) AS now
	CROSS JOIN LATERAL (
		SELECT count(*) AS day, count(*) FILTER (WHERE s.at > now.at - interval '1 hour') AS hour, count(*) FILTER (WHERE s.at > now.at - interval '1 minute') AS minute
		FROM sends s WHERE s.recipient = a.recipient AND s.at > now.at - interval '1 day'
	) AS past
	WHERE past.minute < 1 AND past.hour < 5 AND past.day < 10
), opened AS (
	INSERT INTO verifications (id, recipient, nonce, created_at, expires_at) SELECT verification, recipient, nonce, at, at + interval '10 minutes' FROM admitted
)
INSERT INTO sends (id, verification, recipient, purpose, status, at) SELECT id, verification, recipient, purpose, 'sending', at FROM admitted RETURNING id`
	finishSQL = `UPDATE sends SET status = 'sent', finished_at = clock_timestamp() WHERE id = ANY ($1::uuid[])`
	// The first trip of a check locks and reads. The second trip counts, approves and commits.
	readSQL = `
SELECT id, nonce FROM verifications WHERE id = ANY ($1::text[]) AND attempts < 5 AND approved_at IS NULL AND expires_at > clock_timestamp()
ORDER BY id FOR NO KEY UPDATE`
	countSQL = `
UPDATE verifications v SET attempts = v.attempts + 1, approved_at = CASE WHEN c.correct THEN clock_timestamp() END
FROM unnest($1::text[], $2::bool[]) AS c(id, correct) WHERE v.id = ANY ($1::text[]) AND v.id = c.id`
)

func openDatabase(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = mailConns
	for name, value := range map[string]string{
		"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_bitmapscan": "off", "jit": "off",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err == nil {
		_, err = db.Exec(ctx, tables)
	}
	return db, err
}

func (f *floor) take(ctx context.Context, batch []*code) (map[uuid.UUID]bool, error) {
	answers := make([]*redis.Cmd, len(batch))
	_, err := f.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, x := range batch {
			answers[i] = take.EvalSha(ctx, p, []string{"fair:" + x.to}, x.send.String())
		}
		return nil
	})
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		if err := take.Load(ctx, f.redis).Err(); err != nil {
			return nil, err
		}
		return f.take(ctx, batch)
	}
	admitted := make(map[uuid.UUID]bool, len(batch))
	for i, x := range batch {
		n, _ := answers[i].Int()
		admitted[x.send] = n == 1
	}
	return admitted, err
}

func (f *floor) begin(ctx context.Context, batch []*code) (map[uuid.UUID]bool, error) {
	n := len(batch)
	ids, nonces, keys := make([]uuid.UUID, n), make([][]byte, n), make([]int64, n)
	verifications, recipients, purposes := make([]string, n), make([]string, n), make([]string, n)
	for i, x := range batch {
		ids[i], nonces[i], keys[i] = x.send, x.send[:], x.key()
		verifications[i], recipients[i], purposes[i] = x.verification, x.to, x.purpose
	}
	slices.Sort(keys)
	var trip pgx.Batch // one transaction
	trip.Queue(lockSQL, keys)
	trip.Queue(writeSQL, ids, verifications, recipients, purposes, nonces)
	results := f.db.SendBatch(ctx, &trip)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	rows, _ := results.Query()
	written, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	admitted := make(map[uuid.UUID]bool, len(written))
	for _, id := range written {
		admitted[id] = true
	}
	return admitted, err
}

func (f *floor) end(ctx context.Context, batch []*code) (map[uuid.UUID]bool, error) {
	ids := make([]uuid.UUID, len(batch))
	for i, x := range batch {
		ids[i] = x.send
	}
	_, err := f.db.Exec(ctx, finishSQL, ids)
	return nil, err
}

func (c *code) key() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.to))
	return int64(h.Sum64())
}

func (f *floor) decide(ctx context.Context, batch []*code) (map[uuid.UUID]bool, error) {
	var ids []string
	for _, x := range batch {
		ids = append(ids, x.verification)
	}
	conn, err := f.db.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release() // if its transaction has not ended, the pool closes it
	var read, write pgx.Batch
	sends, correct := map[string]uuid.UUID{}, map[uuid.UUID]bool{}
	read.Queue("BEGIN")
	read.Queue(readSQL, ids).Query(func(rows pgx.Rows) error {
		var id string
		var nonce []byte
		_, err := pgx.ForEachRow(rows, []any{&id, &nonce}, func() error { sends[id] = uuid.UUID(nonce); return nil })
		return err
	})
	if err := conn.SendBatch(ctx, &read).Close(); err != nil {
		return nil, err
	}
	ids = ids[:0]
	var right []bool
	for _, x := range batch {
		if send, pending := sends[x.verification]; pending {
			correct[x.send] = digitsOf(send) == x.digits
			ids, right = append(ids, x.verification), append(right, correct[x.send])
		}
	}
	write.Queue(countSQL, ids, right)
	write.Queue("COMMIT")
	return correct, conn.SendBatch(ctx, &write).Close()
}
