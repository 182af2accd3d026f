package sqldb

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// SealedTables have a column "sealed", whose values keys.Ring.Seal bound to the primary key of the
// row, so that they can't be opened in another row.
var SealedTables = []store.SealedTable{
	{Name: "verifications", Key: "id"},
	{Name: "second_factors", Key: "account"},
	{Name: "outbox", Key: "id", UUID: true},
}

const sealedPrefixLength = 2 + 16 // bytes, up to the end of the key's ID; see keys.Ring.Seal

func sealedRowDestinations(r *store.SealedRow) []any { return []any{&r.Key, &r.Sealed} }

// Reseal replaces the sealed data of the rows with these keys by what seal returns, in one
// transaction, and returns how many. It doesn't wait for row locks: it skips rows that another
// transaction has locked, and those for which seal returns nil.
func (db *DB) Reseal(ctx context.Context, t store.SealedTable, rows []string,
	seal func(store.SealedRow) []byte,
) (int, error) {
	return WriteWithPrecedence(ctx, db, "Reseal", Behind, func(q Tx) (int, error) {
		keys, err := keysParameter(t, rows)
		if err != nil {
			return 0, err
		}
		found, err := QueryAll(q, sealedRowDestinations, q.Dialect.lockRows(`SELECT CAST(`+t.Key+` AS text), sealed FROM `+t.Name+`
WHERE sealed IS NOT NULL AND `+t.Key+` `+q.Dialect.inList("keys")), Args{"keys": keys})
		if err != nil {
			return 0, err
		}
		var names []string
		var sealed [][]byte
		for _, r := range found {
			if s := seal(r); s != nil {
				names, sealed = append(names, r.Key), append(sealed, s)
			}
		}
		if q.Dialect == Postgres && len(names) > 0 { // in one round trip, because the rows are locked until the commit
			if keys, err = keysParameter(t, names); err != nil {
				return 0, err
			}
			err = q.exec(`UPDATE `+t.Name+` SET sealed = (@sealed::bytea[])[array_position(@names::text[], `+t.Key+`::text)]
WHERE `+t.Key+` = ANY (@keys)`, Args{"keys": keys, "names": names, "sealed": sealed})
			return len(names), err
		}
		for i := range names {
			if err := q.exec(`UPDATE `+t.Name+` SET sealed = @sealed WHERE `+t.Key+` = @key`,
				Args{"key": names[i], "sealed": sealed[i]}); err != nil {
				return 0, err
			}
		}
		return len(names), nil
	})
}

// keysParameter returns the parameter for Dialect.inList.
func keysParameter(t store.SealedTable, names []string) (any, error) {
	if !t.UUID {
		return names, nil
	}
	ids := make([]uuid.UUID, len(names))
	for i, name := range names {
		id, err := uuid.Parse(name)
		if err != nil {
			return nil, store.BadRequestf("%q is not a key of %s", name, t.Name)
		}
		ids[i] = id
	}
	return ids, nil
}

// EachSealedPage calls page with all rows of SealedTables that have a sealed value, at most limit
// in one call. Their Sealed has only the first sealedPrefixLength bytes.
func (db *DB) EachSealedPage(ctx context.Context, limit int, page func(store.SealedTable, []store.SealedRow) error) error {
	for _, t := range SealedTables {
		for after, more := "", true; more; {
			rows, next, err := db.SealedPage(ctx, t, after, limit)
			if err != nil {
				return err
			}
			if err := page(t, rows); err != nil {
				return err
			}
			after, more = next, next != ""
		}
	}
	return nil
}

// SealedPage reads at most limit rows whose keys follow after, in the order of keys. It returns
// those with a sealed value, of which Sealed has only the first sealedPrefixLength bytes. next is
// the last key that was read, or "" at the end of the table.
func (db *DB) SealedPage(ctx context.Context, t store.SealedTable, after string, limit int) (rows []store.SealedRow,
	next string, err error,
) {
	if t.UUID {
		after = cmp.Or(after, uuid.Nil.String())
	}
	rows, err = ReadAll(ctx, db, "SealedPage", sealedRowDestinations,
		`SELECT CAST(`+t.Key+` AS text), substr(sealed, 1, @head) FROM `+t.Name+`
WHERE `+t.Key+` > @after ORDER BY `+t.Key+` LIMIT @limit`, Args{"after": after, "limit": limit, "head": sealedPrefixLength})
	if err != nil {
		return nil, "", err
	}
	if len(rows) == limit {
		next = rows[limit-1].Key
	}
	return slices.DeleteFunc(rows, func(r store.SealedRow) bool { return len(r.Sealed) == 0 }), next, nil
}
