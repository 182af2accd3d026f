package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"
)

// Checks share transactions, as sends do: the first trip locks and reads, the second counts,
// approves and commits.
const (
	readSQL = `
SELECT id, nonce FROM verifications WHERE id = ANY ($1::text[]) AND attempts < 5 AND approved_at IS NULL AND expires_at > clock_timestamp()
ORDER BY id FOR NO KEY UPDATE`
	countSQL = `
UPDATE verifications v SET attempts = v.attempts + 1, approved_at = CASE WHEN c.correct THEN clock_timestamp() END
FROM unnest($1::text[], $2::bool[]) AS c(id, correct) WHERE v.id = ANY ($1::text[]) AND v.id = c.id`
)

func digitsOf(send uuid.UUID) string { return fmt.Sprintf("%06d", uint32(send.ID())%1_000_000) }

func (f *floor) check(c echo.Context) error {
	var asked struct{ Code string }
	if err := json.NewDecoder(c.Request().Body).Decode(&asked); err != nil {
		return echo.NewHTTPError(http.StatusBadRequest)
	}
	id := c.Param("id")
	correct, err := f.fair.checks.do(&code{to: id, verification: id, digits: asked.Code, send: uuid.New()})
	if err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, fmt.Appendf(nil, `{"id":"%s","valid":%t}`, id, correct))
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
	defer conn.Release() // closes a connection in a transaction
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
