package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// minPartitionWeeksAhead is how many coming weeks need partitions. If fewer coming weeks have
// partitions, the doctor prints a remark.
const minPartitionWeeksAhead = 2

// remarkUnnamedClients looks at the newest sends of the last day, and prints a remark if back ends
// left out the address of the client.
func (d *doctor) remarkUnnamedClients(ctx context.Context, db *sqldb.DB) error {
	const newest = 200
	rows, err := db.Sends(ctx, store.Filter{From: d.now().Add(-24 * time.Hour), Limit: newest})
	if err != nil {
		return err
	}
	all, unnamed := 0, 0
	for _, s := range rows {
		switch {
		case s.To == store.ErasedMask: // an erasure also removes the network
		case s.Network == "":
			unnamed++
			fallthrough
		default:
			all++
		}
	}
	if unnamed > 0 {
		d.remark("clients", fmt.Sprintf("back ends name no client_ip: %d of the newest %d sends of the last day. "+
			"Those without trust: known share %d an hour, as if they were one network (rule %s): docs/policies.md#when-to-say-trust-known",
			unnamed, all, policy.UnnamedRule.Limit, policy.UnnamedRule.Name))
	}
	return nil
}

// checkKeys compares the keys with the database's check values. It also counts the rows that are
// encrypted under each key. It stops after half of checkTimeout, so the counts may be incomplete.
// The command sendcode rekey counts all rows.
func (d *doctor) checkKeys(ctx context.Context, cfg config.Config, db *sqldb.DB) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout/2)
	defer cancel()
	missing, err := app.CompareKeysWithDatabase(ctx, cfg, db)
	if err != nil {
		d.fail("keys", err.Error())
	}
	for _, id := range missing {
		d.fail("keys", fmt.Sprintf("codes that have not expired need key %q, which is not in SENDCODE_SECRET_KEYS", id))
	}
	ring := app.RingIDs(cfg)
	if len(ring) == 0 { // the service uses generated keys
		return
	}
	counts, err := app.CountRowsByKey(ctx, db)
	d.pass("keys", describeRowsByKey(ring[0], counts, err == nil))
	for id := range counts {
		switch {
		case !slices.Contains(ring, id):
			d.fail("keys", fmt.Sprintf("%d rows can't be read: key %q is not in SENDCODE_SECRET_KEYS", counts[id], id))
		case id != ring[0]:
			d.remark("keys", id+" is needed until sendcode rekey has encrypted its rows again")
		}
	}
}

// describeRowsByKey says how many rows are encrypted under each key. complete is true if all rows
// were counted in time.
func describeRowsByKey(first string, counts map[string]int, complete bool) string {
	switch {
	case len(counts) > 0 && complete:
		return "rows by key, with the first key " + first + ": " + app.FormatRowsByKey(counts)
	case len(counts) > 0:
		return "rows by key, with the first key " + first + ": " + app.FormatRowsByKey(counts) + ", and more"
	case complete:
		return "no rows are encrypted yet; the first key is " + first
	}
	return "no rows were counted in time; the first key is " + first
}

// checkStorage returns the end of a sentence about the rows and partitions of the database. It
// prints a remark for each fault.
func (d *doctor) checkStorage(ctx context.Context, db *sqldb.DB) (string, error) {
	e, err := db.StorageStatus(ctx, d.cfg.Retention)
	if err != nil {
		return "", err
	}
	if len(e.Partitions) > 0 && store.PartitionWeeksAhead(e.PartitionsUntil(), e.Now) < minPartitionWeeksAhead {
		d.remark("partitions", "partitions for new rows exist only until "+e.PartitionsUntil().Format(time.DateOnly)+
			"; the service makes more while it runs, "+
			"and so does sendcode migrate")
	}
	if e.Due > 0 {
		due := strconv.Itoa(e.Due)
		if e.Due >= store.MaxDueCounted {
			due += " or more"
		}
		d.remark("retention",
			due+" rows are due for deletion; the service deletes them while it runs")
	}
	if e.ForgettingDue > 0 {
		d.remark("erasures", fmt.Sprintf(
			"the keyed hashes of %d erased persons should be gone; the service deletes them while it runs", e.ForgettingDue))
	}
	if err := d.remarkUnnamedClients(ctx, db); err != nil {
		return "", err
	}
	text := ""
	if len(e.Partitions) > 0 {
		text = fmt.Sprintf(": %d partitions, until %s", len(e.Partitions), e.PartitionsUntil().Format(time.DateOnly))
	}
	if !e.Oldest.IsZero() {
		text += "; the oldest row is of " + e.Oldest.Format(time.DateOnly)
	}
	return text, nil
}
