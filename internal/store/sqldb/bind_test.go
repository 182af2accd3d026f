package sqldb

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// A statement is written once; each database gets its words, its parameters in order and their values as its driver takes them.
func TestBind(t *testing.T) {
	id, hash, at := uuid.MustParse("0190d9a8-0000-7000-8000-000000000001"), recipient.Hash{1}, time.UnixMicro(1_700_000_000_000_007).UTC()
	for name, c := range map[string]struct {
		statement          string
		args               Args
		postgres, lite     string
		values, liteValues []any
	}{
		"by name, once each": {
			`UPDATE t SET a = @app WHERE b = @n AND c <> @app`, Args{"n": 7, "app": store.Status("sent"), "unused": 1},
			`UPDATE t SET a = $1::text WHERE b = $2::bigint AND c <> $1::text`, `UPDATE t SET a = ?1 WHERE b = ?2 AND c <> ?1`,
			[]any{"sent", int64(7)}, []any{"sent", int64(7)},
		},
		"the clock": {
			`SELECT @now, @now - @keep`, Args{"keep": time.Second},
			`SELECT clock_timestamp(), clock_timestamp() - $1::interval`, `SELECT ?1, ?1 - ?2`,
			[]any{time.Second}, []any{at.UnixMicro(), int64(1_000_000)},
		},
		"the clock, when it was read": {
			`SELECT @now`, Args{"now": at},
			`SELECT $1::timestamptz`, `SELECT ?1`, []any{at}, []any{at.UnixMicro()},
		},
		"lists": {
			`WHERE h IN (@hashes) AND i IN (@ids) AND p IN (@purposes)`,
			Args{"hashes": []recipient.Hash{hash}, "ids": []uuid.UUID{id, uuid.Nil}, "purposes": []string{}},
			`WHERE h = ANY ($1::bytea[]) AND i = ANY ($2::uuid[]) AND p = ANY ($3::text[])`, `WHERE h IN (?1) AND i IN (?2, ?3) AND p IN ()`,
			[]any{[][]byte{hash[:]}, [][16]byte{id, {}}, []string{}}, []any{hash[:], id, uuid.Nil},
		},
		"values": {
			`VALUES (@hash, @key, @raw, @yes, @none, @id)`,
			Args{"hash": hash, "key": [32]byte{2}, "raw": []byte{3}, "yes": true, "none": orNull(uuid.Nil), "id": id},
			`VALUES ($1::bytea, $2::bytea, $3::bytea, $4::boolean, $5, $6::uuid)`, `VALUES (?1, ?2, ?3, ?4, ?5, ?6)`,
			[]any{hash[:], append([]byte{2}, make([]byte, 31)...), []byte{3}, true, nil, id},
			[]any{hash[:], append([]byte{2}, make([]byte, 31)...), []byte{3}, true, nil, id},
		},
		"numbered, and words": {
			`WHERE {{true}} AND a = $1 AND m = 'a@b' {{skip locked}}`, Numbered([]any{"x"}),
			`WHERE true AND a = $1::text AND m = 'a@b' FOR UPDATE SKIP LOCKED`, `WHERE 1 AND a = ?1 AND m = 'a@b' `,
			[]any{"x"}, []any{"x"},
		},
	} {
		pg := Dialect{Now: "clock_timestamp()", Typed: true, Words: map[string]string{"true": "true", "skip locked": "FOR UPDATE SKIP LOCKED"},
			At: func(at time.Time) any { return at }}
		lite := Dialect{Words: map[string]string{"true": "1", "skip locked": ""}, At: func(at time.Time) any { return at.UnixMicro() }}
		text, values := pg.Bind(c.statement, c.args, time.Time{})
		storetest.Equal(t, name+": postgres", text, c.postgres)
		storetest.Equal(t, name+": postgres", values, c.values)
		text, values = lite.Bind(c.statement, c.args, at)
		storetest.Equal(t, name+": sqlite", text, c.lite)
		storetest.Equal(t, name+": sqlite", values, c.liteValues)
	}
}
