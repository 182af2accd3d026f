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

	"sendcode/internal/config"
	"sendcode/internal/keys"
	"sendcode/internal/runbook"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

const (
	keysEvery  = time.Minute
	keyedCodes = 20_000 // of those that expire first, and of those that expire last
	keyedRows  = 2_000  // sealed ones a second
)

// keyCheck compares this process's keys with the check values in the database, and finds the keys
// that rows need and the ring lacks. Only keys that have a check value are looked for: while the
// ring has all of them, nothing else is read.
type keyCheck struct {
	vault  keys.Vault
	db     *sqldb.DB
	logger *slog.Logger
	rows   int // sealed ones that are looked at in each run; 0: keyedRows

	lacking []string // IDs that the database knows and the ring lacks
	// of sqldb.SealedTables; of those before it, and of its rows up to after, none is sealed under
	// lacking
	table int
	after string
	more  bool // rows follow after, and of the others none is missing

	looked  time.Time // at all but sealed rows
	missing []string  // of lacking: those that rows need

	mu     sync.Mutex
	reason *server.Reason // nil: all is well
}

// vaultOf returns the keys of a configuration, as far as it has them.
func vaultOf(cfg config.Config) keys.Vault {
	ring, err := keys.Parse(cfg.SecretKeys.Reveal())
	if err != nil {
		ring = &keys.Ring{}
	}
	return keys.Vault{IndexKey: cfg.IndexKeyBytes(), Ring: ring}
}

// checkKeys compares the keys before anything is written with them, and begins to look for missing
// ones, which do not stop the start.
func (a *App) checkKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	k := &keyCheck{vault: a.keys, db: a.db, logger: a.logger}
	if err := k.compare(ctx); err != nil {
		return err
	}
	_, _ = k.findMissing(ctx) // the job goes on with it, and reports its errors
	a.keyCheck = k
	return nil
}

// run is the job: the database may be another one now, or hold rows of replicas with other rings.
// again: sealed rows are left to look at.
func (k *keyCheck) run(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	if k.more && time.Since(k.looked) < keysEvery {
		return k.findSealed(ctx, nil)
	}
	err = k.compare(ctx)
	if _, other := errors.AsType[*store.OtherKeysError](err); other {
		k.setReason(&server.Reason{Part: "keys", Word: "other_keys", Unready: true, Err: err})
		k.logger.Error("keys differ from those of database: stop this replica, or correct its settings", "error", err,
			runbook.Keys.See())
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return k.findMissing(ctx)
}

// compare enters the keys that the database does not know, and fails if it knows one with other
// bytes.
func (k *keyCheck) compare(ctx context.Context) error {
	known, err := k.db.EnterKeyChecks(ctx, k.vault.CheckValues())
	if err != nil {
		return explainOtherKeys(err)
	}
	if lacking := k.vault.Ring.MissingKeys(known); !slices.Equal(lacking, k.lacking) {
		k.lacking, k.table, k.after = lacking, 0, ""
	}
	return nil
}

// explainOtherKeys adds to a *store.OtherKeysError what to do.
func explainOtherKeys(err error) error {
	other, ok := errors.AsType[*store.OtherKeysError](err)
	if !ok {
		return err
	}
	var advice []string
	for _, name := range other.Names {
		if name == keys.IndexKeyCheck {
			advice = append(advice,
				"set SENDCODE_INDEX_KEY to the one that the database was written with, or every quota begins again")
		} else {
			advice = append(advice, "in SENDCODE_SECRET_KEYS "+name+
				" has other bytes than before: put its bytes back, and give a new key another ID")
		}
	}
	return fmt.Errorf("%w: %s; docs/operations.md#keys", err, strings.Join(advice, "; "))
}

// findMissing looks for missing keys in codes that have not expired, and in the next sealed rows.
// again: rows are left to look at.
func (k *keyCheck) findMissing(ctx context.Context) (again bool, err error) {
	k.looked = time.Now()
	if len(k.lacking) == 0 {
		k.more = false
		k.note(nil)
		return false, nil
	}
	codes, err := k.ofCodes(ctx)
	if err != nil {
		return false, err
	}
	return k.findSealed(ctx, codes)
}

// findSealed looks for missing keys in the next sealed rows, beside those that codes need. again:
// rows are left to look at.
func (k *keyCheck) findSealed(ctx context.Context, codes []string) (again bool, err error) {
	missing, more, err := k.ofSealed(ctx)
	if err != nil {
		return false, err
	}
	if len(codes) > 0 { // rows may be sealed with it until then
		k.table, k.after = 0, ""
	}
	missing = append(missing, codes...)
	if k.more = len(missing) == 0 && more; k.more {
		return true, nil // what was found before may be among them
	}
	slices.Sort(missing)
	k.note(slices.Compact(missing))
	return false, nil
}

// ofCodes returns the keys of codes that have not expired, of those that the ring lacks.
func (k *keyCheck) ofCodes(ctx context.Context) ([]string, error) {
	used, err := k.db.KeysOfCodes(ctx, keyedCodes)
	return slices.DeleteFunc(used, func(id string) bool { return !slices.Contains(k.lacking, id) }), err
}

// ofSealed looks at the next sealed rows, and returns their keys, of those that the ring lacks. The
// next call begins at the same rows if there are such keys. more: rows follow.
func (k *keyCheck) ofSealed(ctx context.Context) (missing []string, more bool, err error) {
	if k.table == len(sqldb.SealedTables) {
		return nil, false, nil
	}
	rows, next, err := k.db.SealedPage(ctx, sqldb.SealedTables[k.table], k.after, cmp.Or(k.rows, keyedRows))
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
	if k.after = next; next == "" {
		k.table++
	}
	return nil, k.table < len(sqldb.SealedTables), nil
}

// note keeps which keys are missing, and logs a change.
func (k *keyCheck) note(missing []string) {
	if len(missing) == 0 {
		k.setReason(nil)
	} else {
		list := strings.Join(missing, ", ")
		k.setReason(&server.Reason{Part: "keys", Word: "key_missing", Values: []string{"keys", list},
			Err: keys.ErrUnknownKey})
	}
	switch {
	case slices.Equal(missing, k.missing):
	case len(missing) > 0:
		k.logger.Warn("key ring incomplete: codes or stored addresses need keys that SENDCODE_SECRET_KEYS lacks",
			"keys", missing,
			runbook.Keys.See())
	default:
		k.logger.Info("key ring complete again")
	}
	k.missing = missing
}

func (k *keyCheck) setReason(r *server.Reason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reason = r
}

// whyIncomplete returns a reason if the keys are not those of the database, or one is missing, as
// of the last look.
func (k *keyCheck) whyIncomplete(context.Context) *server.Reason {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reason
}

// CompareKeys compares the keys of a configuration, as far as it has them, with the database's
// check values, as a start does, but writes nothing. It returns the IDs of the keys that codes need
// and the ring lacks.
func CompareKeys(ctx context.Context, cfg config.Config, db *sqldb.DB) (missing []string, err error) {
	k := keyCheck{vault: vaultOf(cfg), db: db}
	known, err := db.KeyChecks(ctx)
	if err != nil {
		return nil, err
	}
	if differ := k.vault.CheckValues().Differing(known); len(differ) > 0 {
		return nil, explainOtherKeys(&store.OtherKeysError{Names: differ})
	}
	if k.lacking = k.vault.Ring.MissingKeys(known); len(k.lacking) == 0 {
		return nil, nil
	}
	return k.ofCodes(ctx)
}
