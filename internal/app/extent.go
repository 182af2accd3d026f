package app

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"sendcode/internal/store"
)

// extent tells at each scrape how far the log reaches, and what the background has still to do. It is a prometheus.Collector: while
// the log does not answer there is nothing to tell.
type extent struct {
	of func(context.Context) (store.StorageStatus, error)
}

var (
	aheadDesc = prometheus.NewDesc("sendcode_log_months_ahead",
		"Whole months after the present one that the log has partitions for; none where it needs none.", nil, nil)
	oldestDesc = prometheus.NewDesc("sendcode_log_oldest_timestamp_seconds", "When the oldest row was logged.", nil, nil)
	dueDesc    = prometheus.NewDesc("sendcode_retention_due_rows",
		fmt.Sprintf("Rows older than the log keeps them, not yet deleted; counted up to %d.", store.MaxDue), nil, nil)
	lateDesc = prometheus.NewDesc("sendcode_erasures_due", "Erased persons whose keyed hash should be gone.", nil, nil)
)

// Describe implements prometheus.Collector.
func (extent) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{aheadDesc, oldestDesc, dueDesc, lateDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (x extent) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), watchTimeout)
	defer cancel()
	e, err := x.of(ctx)
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, n float64) { out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n) }
	if len(e.Partitions) > 0 {
		gauge(aheadDesc, float64(store.MonthsAhead(e.Until(), e.Now)))
	}
	if !e.Oldest.IsZero() {
		gauge(oldestDesc, float64(e.Oldest.UnixMilli())/1000)
	}
	gauge(dueDesc, float64(e.Due))
	gauge(lateDesc, float64(e.Late))
}

func (a *App) extent(ctx context.Context) (store.StorageStatus, error) {
	return a.log.StorageStatus(ctx, a.policy.Get().Retention)
}
