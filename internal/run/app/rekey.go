package app

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"sendcode/internal/codes/keys"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/run/config"
	"sendcode/internal/run/jobs"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// rekeyBatchSize is how many rows Rekey reads at once, and the most that it changes in one
// transaction. Such a transaction keeps SQLite's only writer busy for about 5 ms.
const rekeyBatchSize = 100

var sealLabels = map[string]string{
	"verifications": keys.RecipientLabel, "second_factors": auth.SecondFactorSealLabel,
	"outbox": keys.CallerCodeLabel,
}

// Rekey encrypts all rows with the ring's first key, and prints its progress to out. On Postgres
// the service may run meanwhile. On a SQLite file the service does it in rekeyJob. Rekey keeps no
// state, so it can be stopped and called again at any time.
//
// If rows remain under other keys, the error has their number: they were locked, a replica with
// another first key wrote them meanwhile, the ring lacks their key, or they are damaged.
func Rekey(ctx context.Context, cfg config.Config, out io.Writer) error {
	db, done, err := OpenStoreForCommand(ctx, cfg,
		"a service that runs on a SQLite file does this by itself after each start; sendcode doctor counts the rows that are left")
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	ring, err := keys.Parse(cfg.SecretKeys.Reveal())
	if err != nil {
		return err
	}
	if _, err := db.AddKeyCheckValues(ctx, vaultOf(cfg).KeyCheckValues()); err != nil {
		return explainOtherKeys(err)
	}
	r := rekeyRun{db: db, ring: ring, out: out, printedAt: time.Now()}
	if err := r.rekey(ctx); err != nil {
		return fmt.Errorf("%w; %d rows were re-encrypted; the command can be repeated", err, r.changed)
	}
	counts, err := CountRowsByKey(ctx, db)
	if err != nil {
		return err
	}
	current := counts[ring.CurrentID()]
	delete(counts, ring.CurrentID())
	if _, err := fmt.Fprintf(out, "%d rows re-encrypted; %d are under %s\n", r.changed, current,
		ring.CurrentID()); err != nil || len(counts) == 0 {
		return err
	}
	return fmt.Errorf("rows under other keys remain: %s; you can repeat the command", FormatRowsByKey(counts))
}

// rekeyJob does what Rekey does, after the start of a service on a SQLite file. On Postgres an
// operator runs Rekey when all replicas have the same first key.
func (a *App) rekeyJob() jobs.Job {
	r, done := rekeyRun{db: a.db, ring: a.ring, out: io.Discard}, false
	return jobs.Job{Name: "rekey", Every: keyCheckEvery, Run: func(ctx context.Context) (bool, error) {
		if done {
			return false, nil
		}
		err := r.rekey(ctx)
		done = err == nil
		if done && r.changed > 0 {
			a.logger.Info("stored rows encrypted with first key of SENDCODE_SECRET_KEYS", "rows", r.changed, "key", a.ring.CurrentID())
		}
		return false, err
	}}
}

type rekeyRun struct {
	db            *sqldb.DB
	ring          *keys.Ring
	out           io.Writer
	read, changed int
	printedAt     time.Time
}

func (r *rekeyRun) rekey(ctx context.Context) error {
	return r.db.EachSealedPage(ctx, rekeyBatchSize,
		func(t store.SealedTable, rows []store.SealedRow) error { return r.rekeyPage(ctx, t, rows) })
}

// rekeyPage re-encrypts the rows that are not under the first key. Then it waits for as long as the
// database worked, so that half of the database's time is left to the service.
func (r *rekeyRun) rekeyPage(ctx context.Context, t store.SealedTable, rows []store.SealedRow) error {
	var old []string
	for _, row := range rows {
		if keys.SealedBy(row.Sealed) != r.ring.CurrentID() {
			old = append(old, row.Key)
		}
	}
	r.read += len(rows)
	if len(old) > 0 {
		began := time.Now()
		n, err := r.db.Reseal(ctx, t, old, func(row store.SealedRow) []byte {
			// If the key is missing or the row is damaged, sealed is nil. Then Reseal leaves the
			// row unchanged, and CountRowsByKey counts it.
			sealed, _ := r.ring.Reseal(sealLabels[t.Name], row.Sealed, []byte(row.Key))
			return sealed
		})
		if err != nil {
			return err
		}
		r.changed += n
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Since(began)):
		}
	}
	if time.Since(r.printedAt) < time.Second {
		return nil
	}
	r.printedAt = time.Now()
	_, err := fmt.Fprintf(r.out, "%s: %d rows read, %d re-encrypted\n", t.Name, r.read, r.changed)
	return err
}

// CountRowsByKey returns how many rows are sealed under each key ID. Damaged rows count under "".
func CountRowsByKey(ctx context.Context, db *sqldb.DB) (map[string]int, error) {
	counts := map[string]int{}
	err := db.EachSealedPage(ctx, 200*rekeyBatchSize, func(_ store.SealedTable, rows []store.SealedRow) error {
		for _, row := range rows {
			counts[keys.SealedBy(row.Sealed)]++
		}
		return nil
	})
	return counts, err
}

// RingIDs returns the IDs of the keys in SENDCODE_SECRET_KEYS, in the order of that setting.
func RingIDs(cfg config.Config) []string { return vaultOf(cfg).Ring.IDs() }

// FormatRowsByKey returns, for example, "damaged 1, k1 20".
func FormatRowsByKey(counts map[string]int) string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", id, counts[id]))
		if id == "" {
			list[len(list)-1] = fmt.Sprintf("damaged %d", counts[id])
		}
	}
	return strings.Join(list, ", ")
}
