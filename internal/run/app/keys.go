package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/codes/keys"
	"sendcode/internal/http/server"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

const (
	keyCheckEvery   = time.Minute
	maxCheckedCodes = 20_000 // this many of the codes that expire first, and as many of those that expire last
	rowsPerKeyCheck = 2_000  // sealed rows; while rows are left, a run begins each jobs.DefaultTick
)

// keyCheck compares this process's keys with the check values in the database, which has one for
// each key it knows. It also finds missing keys, which rows need but the ring (this process's keys)
// lacks. If the ring has all keys with check values, no key can be missing, so keyCheck reads no
// rows.
type keyCheck struct {
	vault  keys.Vault
	db     *sqldb.DB
	logger *slog.Logger
	rows   int // number of sealed rows that one run reads; 0: rowsPerKeyCheck

	lacking []string // IDs that the database knows and the ring lacks
	// The next run continues to read here: table is an index into sqldb.SealedTables, and after is
	// the key of the last row that was read in it. No row before this place is sealed under a key
	// that the ring lacks.
	table int
	after string
	more  bool // sealed rows are still unread, and no key is known to be missing

	comparedAt time.Time // when keys and codes were last compared; sealed rows may be read later
	missing    []string  // the lacking keys that codes or sealed rows need

	mu     sync.Mutex
	reason *server.HealthReason // nil: all is well
}

// vaultOf does not read the keys in the data directory.
func vaultOf(cfg config.Config) keys.Vault {
	ring, err := keys.Parse(cfg.SecretKeys.Reveal())
	if err != nil {
		ring = &keys.Ring{}
	}
	return keys.Vault{IndexKey: cfg.IndexKeyBytes(), Ring: ring}
}

// checkKeys returns an error if a key differs from the database's check value. It runs before the
// service writes any row. It also starts the search for missing keys, which don't stop the start.
func (a *App) checkKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, databaseOpenTimeout)
	defer cancel()
	k := &keyCheck{vault: a.keys, db: a.db, logger: a.logger}
	if err := k.addMissingAndCompare(ctx); err != nil {
		return err
	}
	_, _ = k.findMissing(ctx) // the job continues the search, and reports its errors
	a.keyCheck = k
	return nil
}

// run is a job that repeats the comparison of checkKeys, because another database may have replaced
// the first one, or replicas with other keys may have written rows. more is true if sealed rows are
// still unread.
func (k *keyCheck) run(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	if k.more && time.Since(k.comparedAt) < keyCheckEvery {
		return k.findMissingInRows(ctx, nil)
	}
	err = k.addMissingAndCompare(ctx)
	if _, other := errors.AsType[*store.OtherKeysError](err); other {
		k.setReason(&server.HealthReason{Part: "keys", Word: "other_keys", Unready: true, Err: err})
		k.logger.Error("keys differ from those of database: stop this replica, or correct its settings", "error", err,
			logs.SeeKeys)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return k.findMissing(ctx)
}

// addMissingAndCompare adds the check values that the database lacks. It returns an error if the
// database has another value for a key's ID.
func (k *keyCheck) addMissingAndCompare(ctx context.Context) error {
	known, err := k.db.AddKeyCheckValues(ctx, k.vault.KeyCheckValues())
	if err != nil {
		return explainOtherKeys(err)
	}
	if lacking := k.vault.Ring.MissingKeys(known); !slices.Equal(lacking, k.lacking) {
		k.lacking, k.table, k.after = lacking, 0, ""
	}
	return nil
}

// explainOtherKeys adds advice to a *store.OtherKeysError.
func explainOtherKeys(err error) error {
	other, ok := errors.AsType[*store.OtherKeysError](err)
	if !ok {
		return err
	}
	var advice []string
	for _, name := range other.Names {
		if name == keys.IndexKeyCheckName {
			advice = append(advice,
				"set SENDCODE_INDEX_KEY to the key with which the database was written; with another key all counts begin again")
		} else {
			advice = append(advice, "in SENDCODE_SECRET_KEYS "+name+
				" has another value than before: put its old value back, and give a new key a new ID")
		}
	}
	return fmt.Errorf("%w: %s; docs/operations.md#keys", err, strings.Join(advice, "; "))
}

// findMissing looks for missing keys in a sample of the unexpired codes and in the next sealed
// rows. more is true if sealed rows are still unread.
func (k *keyCheck) findMissing(ctx context.Context) (more bool, err error) {
	k.comparedAt = time.Now()
	if len(k.lacking) == 0 {
		k.more = false
		k.recordMissing(nil)
		return false, nil
	}
	codes, err := k.missingInCodes(ctx)
	if err != nil {
		return false, err
	}
	return k.findMissingInRows(ctx, codes)
}

// findMissingInRows looks for missing keys in the next sealed rows, and records them with codes,
// the missing keys that unexpired codes need. If no key is missing, more is true as long as sealed
// rows are still unread.
func (k *keyCheck) findMissingInRows(ctx context.Context, codes []string) (more bool, err error) {
	missing, more, err := k.missingInNextRows(ctx)
	if err != nil {
		return false, err
	}
	if len(codes) > 0 { // read all rows again: new rows under these keys may be before this place, and are kept longer than the codes
		k.table, k.after = 0, ""
	}
	missing = append(missing, codes...)
	k.more = len(missing) == 0 && more
	if k.more {
		return true, nil // keep the recorded keys: rows that are left may need them
	}
	slices.Sort(missing)
	k.recordMissing(slices.Compact(missing))
	return false, nil
}

func (k *keyCheck) missingInCodes(ctx context.Context) ([]string, error) {
	used, err := k.db.SampleCodeKeyIDs(ctx, maxCheckedCodes)
	return slices.DeleteFunc(used, func(id string) bool { return !slices.Contains(k.lacking, id) }), err
}

// missingInNextRows returns the keys that the next sealed rows need but the ring lacks. If it finds
// any, the next call reads the same rows again. more is true if sealed rows are still unread.
func (k *keyCheck) missingInNextRows(ctx context.Context) (missing []string, more bool, err error) {
	if k.table == len(sqldb.SealedTables) {
		return nil, false, nil
	}
	rows, next, err := k.db.SealedPage(ctx, sqldb.SealedTables[k.table], k.after, cmp.Or(k.rows, rowsPerKeyCheck))
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		if id := keys.SealedBy(row.Sealed); slices.Contains(k.lacking, id) && !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return missing, true, nil
	}
	k.after = next
	if next == "" {
		k.table++
	}
	return nil, k.table < len(sqldb.SealedTables), nil
}

func (k *keyCheck) recordMissing(missing []string) {
	if len(missing) == 0 {
		k.setReason(nil)
	} else {
		list := strings.Join(missing, ", ")
		k.setReason(&server.HealthReason{
			Part: "keys", Word: "key_missing", Values: []string{"keys", list},
			Err: keys.ErrUnknownKey,
		})
	}
	switch {
	case slices.Equal(missing, k.missing):
	case len(missing) > 0:
		k.logger.Warn("key ring incomplete: codes or stored addresses need keys that SENDCODE_SECRET_KEYS lacks",
			"keys", missing,
			logs.SeeKeys)
	default:
		k.logger.Info("key ring complete again")
	}
	k.missing = missing
}

func (k *keyCheck) setReason(r *server.HealthReason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reason = r
}

// whyIncomplete returns the fault that the last check of the keys found, or nil.
func (k *keyCheck) whyIncomplete(context.Context) *server.HealthReason {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reason
}

// CompareKeysWithDatabase compares the keys of a configuration with the database's check values.
// Unlike a start, it writes nothing. It returns the IDs of the keys that a sample of the unexpired
// codes needs but the ring lacks.
func CompareKeysWithDatabase(ctx context.Context, cfg config.Config, db *sqldb.DB) (missing []string, err error) {
	k := keyCheck{vault: vaultOf(cfg), db: db}
	known, err := db.KeyCheckValues(ctx)
	if err != nil {
		return nil, err
	}
	if differ := k.vault.KeyCheckValues().Differing(known); len(differ) > 0 {
		return nil, explainOtherKeys(&store.OtherKeysError{Names: differ})
	}
	k.lacking = k.vault.Ring.MissingKeys(known)
	if len(k.lacking) == 0 {
		return nil, nil
	}
	return k.missingInCodes(ctx)
}
