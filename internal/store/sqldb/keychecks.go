package sqldb

import (
	"context"
	"maps"
	"slices"

	"sendcode/internal/store"
)

type keyCheckValue struct {
	name  string
	value []byte
}

func (k *keyCheckValue) fields() []any { return []any{&k.name, &k.value} }

func readKeyCheckValues(q Tx) (store.KeyCheckValues, error) {
	rows, err := QueryAll(q, (*keyCheckValue).fields, `SELECT name, value FROM key_checks`, nil)
	all := store.KeyCheckValues{}
	for _, r := range rows {
		all[r.name] = r.value
	}
	return all, err
}

// KeyCheckValues returns the values of all keys that the database was written with.
func (db *DB) KeyCheckValues(ctx context.Context) (store.KeyCheckValues, error) {
	return ReadWithResult(ctx, db, "KeyCheckValues", readKeyCheckValues)
}

// AddKeyCheckValues adds the values that the database lacks, and returns all that it then has. If
// processes add different values under a name at once, one succeeds. The others, and later ones
// with another value, get *store.OtherKeysError and add nothing.
func (db *DB) AddKeyCheckValues(ctx context.Context, own store.KeyCheckValues) (store.KeyCheckValues, error) {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	all, err := db.KeyCheckValues(ctx)
	if err != nil {
		return nil, err
	}
	if differ := own.Differing(all); len(differ) > 0 {
		return nil, &store.OtherKeysError{Names: differ}
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(own)), func(name string) bool { return all[name] != nil })
	if len(names) == 0 {
		return all, nil
	}
	return WriteWithResult(ctx, db, "AddKeyCheckValues", func(q Tx) (store.KeyCheckValues, error) {
		for _, name := range names { // sorted, so that all processes lock rows in the same order
			if err := q.exec(
				`INSERT INTO key_checks (name, value) VALUES (@name, @value) ON CONFLICT (name) DO NOTHING`,
				Args{"name": name, "value": own[name]}); err != nil {
				return nil, err
			}
		}
		all, err := readKeyCheckValues(q)
		if differ := own.Differing(all); err == nil && len(differ) > 0 {
			err = &store.OtherKeysError{Names: differ}
		}
		return all, err
	})
}

// SampleCodeKeyIDs returns the key IDs of unexpired codes: up to limit that expire first, and as
// many that expire last. Keys seldom change, so nearly all codes have one of these.
func (db *DB) SampleCodeKeyIDs(ctx context.Context, limit int) ([]string, error) {
	return ReadAll(ctx, db, "SampleCodeKeyIDs", OneColumn[string], `
SELECT DISTINCT key_id FROM (
    SELECT * FROM (SELECT key_id FROM verifications WHERE expires_at > (SELECT @now) ORDER BY expires_at LIMIT @limit) AS first
    UNION ALL
    SELECT * FROM (SELECT key_id FROM verifications WHERE expires_at > (SELECT @now) ORDER BY expires_at DESC LIMIT @limit) AS last
) AS codes ORDER BY key_id`, Args{"limit": limit})
}
