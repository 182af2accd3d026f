package doctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/postgres"
)

// weeksAhead is how many whole weeks the database should have room for; with less, doctor warns.
const weeksAhead = 2

// checkStorage returns a sentence about what the database holds, and prints remarks on faults.
func (d *doctor) checkStorage(ctx context.Context, log *postgres.DB) (string, error) {
	e, err := log.StorageStatus(ctx, d.cfg.Retention)
	if err != nil {
		return "", err
	}
	if store.WeeksAhead(e.Until(), e.Now) < weeksAhead {
		d.remark("partitions", "rows can be written until "+e.Until().Format(time.DateOnly)+" alone; the service makes more while it runs, "+
			"and sendcode migrate does")
	}
	if e.Due > 0 {
		due := strconv.Itoa(e.Due)
		if e.Due >= store.MaxDue {
			due += " or more"
		}
		d.remark("retention", due+" rows are older than the log keeps them; the service deletes them while it runs")
	}
	if e.Late > 0 {
		d.remark("erasures", fmt.Sprintf("the keyed hashes of %d erased persons should be gone; the service deletes them while it runs", e.Late))
	}
	said := fmt.Sprintf("%d partitions, until %s", len(e.Partitions), e.Until().Format(time.DateOnly))
	if !e.Oldest.IsZero() {
		said += "; the oldest row is of " + e.Oldest.Format(time.DateOnly)
	}
	return said, nil
}
