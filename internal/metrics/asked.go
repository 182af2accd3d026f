package metrics

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sendcode/internal/failover"
	"sendcode/internal/store"
)

// What is asked for at each scrape, and not counted.

// scrapeTimeout is less than a scrape waits.
const scrapeTimeout = time.Second

func (m *Metrics) gauge(name, help string, labels prometheus.Labels, value func() float64) {
	promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value)
}

// answer returns the number that a question is answered with within scrapeTimeout; otherwise if it fails.
func answer(question func(context.Context) (int, error), otherwise float64) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	n, err := question(ctx)
	if err != nil {
		return otherwise
	}
	return float64(n)
}

// succeeds returns 1 while a check succeeds, 0 while it fails.
func succeeds(check func(context.Context) error) float64 {
	return answer(func(ctx context.Context) (int, error) { return 1, check(ctx) }, 0)
}

// Limiter adds a gauge of whether the limiter answers. With nil it is in this process and always does.
func (m *Metrics) Limiter(ping func(context.Context) error) {
	m.gauge("sendcode_limiter_up", "1 while the limiter answers, 0 while the log decides alone.", nil, func() float64 {
		if ping == nil {
			return 1
		}
		return succeeds(ping)
	})
}

// Writable shows whether the log can be written.
func (m *Metrics) Writable(check func(context.Context) error) {
	m.gauge("sendcode_log_writable", "1 while rows can be written, 0 while nothing can be sent: the database is away, full or read-only.", nil,
		func() float64 { return succeeds(check) })
}

// Rebuilds adds a counter of how often the limiter was rebuilt from the log.
func (m *Metrics) Rebuilds(n func() int64) {
	promauto.With(m.registry).NewCounterFunc(prometheus.CounterOpts{
		Name: "sendcode_limiter_rebuilds_total",
		Help: "Histories of recipients that were written from the log into the limiter, which may have lost them.",
	}, func() float64 { return float64(n()) })
}

// PausedPrefixes adds a gauge of the pauses of prefixes that apply now; -1 if the log does not answer.
func (m *Metrics) PausedPrefixes(holding func(context.Context) (int, error)) {
	m.gauge("sendcode_prefixes_paused", "Prefixes to which text messages rest now, at most 200; -1: the log does not answer.", nil,
		func() float64 { return answer(holding, -1) })
}

// MailServers adds a gauge of whether each mail server is in use.
func (m *Metrics) MailServers(health func() []failover.Health) {
	m.up("sendcode_mail_server_up", "1 while mails go to the server, 0 while it is set aside after failures.", "server", health)
}

// Carriers adds a gauge of whether each carrier of text messages is in use.
func (m *Metrics) Carriers(health func() []failover.Health) {
	m.up("sendcode_sms_carrier_up", "1 while text messages go to the carrier, 0 while it is set aside after failures.", "carrier", health)
}

// up is a gauge for each server or carrier: 1 while it is in use. Its order is a label too, since a host may be configured twice with two
// logins.
func (m *Metrics) up(name, help, label string, health func() []failover.Health) {
	for n, h := range health() {
		m.gauge(name, help, prometheus.Labels{label: h.Server, "order": strconv.Itoa(n + 1)},
			func() float64 {
				if health()[n].Up {
					return 1
				}
				return 0
			})
	}
}

// collector shows metrics of which there are more or fewer at each scrape.
type collector struct {
	described []*prometheus.Desc
	collect   func(show func(d *prometheus.Desc, value float64, labels ...string))
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.described {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	c.collect(func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	})
}

// Keys adds a gauge of when each key of an app was last used, so that unused keys can be removed. The set of keys may change. used
// returns the zero time for a key that was not used since this process started.
func (m *Metrics) Keys(each func(show func(app, key string, used time.Time))) {
	last := prometheus.NewDesc("sendcode_api_key_last_used_timestamp_seconds",
		"When a request came with the key; 0: not since this process started.", []string{"app", "key"}, nil)
	m.registry.MustRegister(collector{[]*prometheus.Desc{last}, func(show func(*prometheus.Desc, float64, ...string)) {
		each(func(app, key string, used time.Time) { show(last, timestamp(used), app, key) })
	}})
}

func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// Storage adds gauges of the log's storage and of the rows that wait to be deleted. While the log does not answer, they are
// missing.
func (m *Metrics) Storage(status func(context.Context) (store.StorageStatus, error)) {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	ahead := desc("sendcode_log_months_ahead", "Whole months after the present one that the log has partitions for; none where it needs none.")
	oldest := desc("sendcode_log_oldest_timestamp_seconds", "When the oldest row was logged.")
	due := desc("sendcode_retention_due_rows",
		fmt.Sprintf("Rows older than the log keeps them, not yet deleted; counted up to %d.", store.MaxDue))
	late := desc("sendcode_erasures_due", "Erased persons whose keyed hash should be gone.")
	m.registry.MustRegister(collector{[]*prometheus.Desc{ahead, oldest, due, late}, func(show func(*prometheus.Desc, float64, ...string)) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		s, err := status(ctx)
		if err != nil {
			return
		}
		if len(s.Partitions) > 0 {
			show(ahead, float64(store.MonthsAhead(s.Until(), s.Now)))
		}
		if !s.Oldest.IsZero() {
			show(oldest, timestamp(s.Oldest))
		}
		show(due, float64(s.Due))
		show(late, float64(s.Late))
	}})
}
