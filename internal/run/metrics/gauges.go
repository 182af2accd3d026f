package metrics

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sendcode/internal/base/panics"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/store"
)

// A scrape reads the values of the gauges here. The metrics in metrics.go change with events.

// probeTimeout bounds the check of oneIfSucceeds. Prometheus waits longer for a scrape.
const probeTimeout = time.Second

func (m *Metrics) registerGauge(name, help string, labels prometheus.Labels, value func() float64) {
	promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() (v float64) {
		defer panics.Recover(panics.Other, func() { v = math.NaN() })
		return value()
	})
}

// oneIfSucceeds calls check with probeTimeout. It returns 1 if check succeeds, otherwise 0.
func oneIfSucceeds(check func(context.Context) error) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	if check(ctx) != nil {
		return 0
	}
	return 1
}

// RegisterLimiter adds a gauge of whether the limiter answers. If ping is nil, the limiter is in
// this process and the gauge is always 1.
func (m *Metrics) RegisterLimiter(ping func(context.Context) error) {
	m.registerGauge("sendcode_limiter_up", "1 while the limiter answers, 0 while the database decides alone.", nil,
		func() float64 {
			if ping == nil {
				return 1
			}
			return oneIfSucceeds(ping)
		})
}

// RegisterDatabaseWritable adds a gauge of whether the database can be written.
func (m *Metrics) RegisterDatabaseWritable(check func(context.Context) error) {
	m.registerGauge("sendcode_database_writable", "1 while rows can be written, 0 while nothing can be sent.", nil,
		func() float64 { return oneIfSucceeds(check) })
}

// RegisterClock adds a gauge of how far this machine's clock is ahead of the database's clock.
func (m *Metrics) RegisterClock(ahead func() time.Duration) {
	m.registerGauge("sendcode_clock_offset_seconds",
		"How far this replica's clock is ahead of the database's, by which codes and waits are judged; none on SQLite.", nil,
		func() float64 { return ahead().Seconds() })
}

// RegisterPausedPrefixes adds a gauge of the number of prefixes that are paused now. If the
// database does not answer, the gauge is -1.
func (m *Metrics) RegisterPausedPrefixes(count func(context.Context) (int, error)) {
	pausedPrefixes := newReading(count)
	m.registerGauge("sendcode_prefixes_paused",
		"Prefixes to which text messages are paused now, at most 200; -1: the database does not answer.", nil,
		func() float64 {
			if n, ok := pausedPrefixes.get(); ok {
				return float64(n)
			}
			return -1
		})
}

// RegisterLowConversions adds a gauge of 1 for each app with a low conversion now. While the
// database does not answer, the gauge is missing.
func (m *Metrics) RegisterLowConversions(read func(context.Context) ([]store.LowConversion, error)) {
	low := prometheus.NewDesc("sendcode_low_conversion", "1 for an app that sends many codes to strangers of which hardly any is entered, "+
		"so that they are asked for a human check.", []string{"app"}, nil)
	current := newReading(read)
	m.registry.MustRegister(collector{described: []*prometheus.Desc{low}, collect: func(show showFunc) {
		list, ok := current.get()
		for _, l := range list {
			if ok {
				show(low, 1, l.App)
			}
		}
	}})
}

// RegisterLiftedBursts adds a gauge for each of the largest 20 bursts of the last hour with a
// recipient who had entered a code within 90 days. In a burst, one mail server refused many
// recipients with the same words. This may be the server's fault, so the recipients of a burst are
// not suppressed. The gauge is their number. While the database does not answer, the gauge is
// missing.
func (m *Metrics) RegisterLiftedBursts(read func(context.Context) ([]store.Burst, error)) {
	recipients := prometheus.NewDesc("sendcode_suppressions_held", "Recipients of a burst of the last hour, which is not suppressed, "+
		"one of whom entered a code within 90 days.", []string{"server", "words"}, nil)
	bursts := newReading(read)
	m.registry.MustRegister(collector{described: []*prometheus.Desc{recipients}, collect: func(show showFunc) {
		list, ok := bursts.get()
		for _, b := range list {
			if ok {
				show(recipients, float64(b.Recipients), b.Server, b.Words)
			}
		}
	}})
}

// RegisterMailServers adds gauges of whether each mail server is in use, and of when its
// certificate ends.
func (m *Metrics) RegisterMailServers(health func() []delivery.Health) {
	m.registerHealth("sendcode_mail_server_up",
		"1 while mails go to the server, 0 while it is suspended after failures, or has no token for the login.", "server", health, isUp)
	m.registerHealth("sendcode_mail_server_certificate_end_timestamp_seconds",
		"When the server's certificate expires, as of the last connection; 0: none of the last week was by TLS.", "server", health,
		func(h delivery.Health) float64 { return unixSeconds(h.CertificateEnd) })
}

// RegisterCarriers adds a gauge of whether each carrier of text messages is in use.
func (m *Metrics) RegisterCarriers(health func() []delivery.Health) {
	m.registerHealth("sendcode_sms_carrier_up",
		"1 while messages go to the carrier, 0 while it is suspended after failures.",
		"carrier", health, isUp)
}

// RegisterHumanCheckVendors adds a gauge of whether each vendor of a human check is in use. A
// Health's Server is <app>/<vendor>.
func (m *Metrics) RegisterHumanCheckVendors(health func() []delivery.Health) {
	up := prometheus.NewDesc("sendcode_human_check_vendor_up",
		"1 while the vendor is asked about tokens, 0 while it is suspended after failures and work is asked for instead.",
		[]string{"app", "by"}, nil)
	m.registry.MustRegister(collector{described: []*prometheus.Desc{up}, collect: func(show showFunc) {
		for _, h := range health() {
			app, vendor, _ := strings.Cut(h.Server, "/")
			show(up, isUp(h), app, vendor)
		}
	}})
}

func isUp(h delivery.Health) float64 {
	if h.Up {
		return 1
	}
	return 0
}

// registerHealth adds one gauge for each server or carrier. The label "order" is the server's place
// in the configuration, because the configuration may contain the same host twice, with two logins.
func (m *Metrics) registerHealth(name, help, label string, health func() []delivery.Health, value func(delivery.Health) float64) {
	for n, h := range health() {
		m.registerGauge(name, help, prometheus.Labels{label: h.Server, "order": strconv.Itoa(n + 1)},
			func() float64 { return value(health()[n]) })
	}
}

// collector has gauges whose series can differ between scrapes, and at most one counter.
type collector struct {
	described []*prometheus.Desc
	counter   *prometheus.Desc // the only counter, all other metrics are gauges; nil: none
	collect   func(showFunc)
}

// showFunc reports one value of a metric to Prometheus.
type showFunc = func(d *prometheus.Desc, value float64, labels ...string)

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.described {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	defer panics.Recover(panics.Other) // prometheus calls Collect in a goroutine
	c.collect(func(d *prometheus.Desc, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if d == c.counter {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	})
}

// RegisterAPIKeys adds a gauge of the time of each API key's last use, so that an operator can
// remove unused keys. each calls show for every present key, with the zero time for a key that has
// not been used since this process started.
func (m *Metrics) RegisterAPIKeys(each func(show func(app, key string, used time.Time))) {
	last := prometheus.NewDesc("sendcode_api_key_last_used_timestamp_seconds",
		"When a request came with the key; 0: not since this process started.", []string{"app", "key"}, nil)
	m.registry.MustRegister(collector{described: []*prometheus.Desc{last}, collect: func(show showFunc) {
		each(func(app, key string, used time.Time) { show(last, unixSeconds(used), app, key) })
	}})
}

// unixSeconds returns the seconds since 1970, rounded down to a millisecond. For the zero time it
// returns 0.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// RegisterStorage adds gauges of the database. While the database does not answer, the gauges are
// missing. The gauges are:
//
//   - the size of the database
//   - the number of sends and refusals, by age
//   - the number of weeks ahead that have a partition
//   - the time of the oldest send or refusal
//   - the number of rows that are overdue for deletion, of the table that has most of them
//   - the number of erased recipients' hashes that are overdue for deletion
func (m *Metrics) RegisterStorage(status func(context.Context) (store.StorageStatus, error)) {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	ahead := desc("sendcode_database_weeks_ahead",
		"Whole weeks after the present one that have a partition; none on SQLite.")
	oldest := desc("sendcode_database_oldest_timestamp_seconds", "When the oldest send was written.")
	due := desc("sendcode_retention_due_rows",
		fmt.Sprintf(
			"Rows older than the database keeps them, not yet deleted, of the table with the most; counted up to %d.",
			store.MaxDueCounted))
	size := desc("sendcode_database_bytes", "Size of the database, with indexes.")
	rows := prometheus.NewDesc("sendcode_database_sends",
		"Sends and refusals by age, as Postgres estimates them: of the week, the 4 weeks, the "+
			"13 weeks before now, or older; none on SQLite.", []string{"age"}, nil)
	late := desc("sendcode_erasures_due", "Erased recipients whose keyed hash is due for deletion.")
	stored := newReading(status)
	m.registry.MustRegister(collector{
		described: []*prometheus.Desc{ahead, oldest, due, late, size, rows},
		collect: func(show showFunc) {
			s, ok := stored.get()
			if !ok {
				return
			}
			if len(s.Partitions) > 0 {
				show(ahead, float64(store.PartitionWeeksAhead(s.PartitionsUntil(), s.Now)))
				for age, n := range sendsByAge(s) {
					show(rows, float64(n), age)
				}
			}
			if !s.Oldest.IsZero() {
				show(oldest, unixSeconds(s.Oldest))
			}
			show(due, float64(s.Due))
			show(late, float64(s.ForgettingDue))
			show(size, float64(s.Bytes))
		},
	})
}

// sendsByAge sums the partitions' estimated rows by the age of each partition's end.
func sendsByAge(s store.StorageStatus) map[string]int64 {
	all := map[string]int64{"week": 0, "4 weeks": 0, "13 weeks": 0, "older": 0}
	for _, p := range s.Partitions {
		age := "older"
		switch old := s.Now.Sub(p.Ends); {
		case old < 0:
			age = "week"
		case old < 3*store.Week:
			age = "4 weeks"
		case old < 12*store.Week:
			age = "13 weeks"
		}
		all[age] += max(0, p.Rows) // -1: not estimated yet
	}
	return all
}

// RegisterRedis adds gauges of the number of keys in Redis and of the memory that Redis uses. For a
// Redis Cluster, the gauges are the sums over all masters. If Redis does not answer or does not
// permit the commands, the gauges are missing.
func (m *Metrics) RegisterRedis(size func(context.Context) (keys, bytes int64, err error)) {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	keys := desc("sendcode_redis_keys",
		"Keys in Redis: a bucket of each rule and recipient, network or app, and those of other programs.")
	used := desc("sendcode_redis_memory_bytes", "Memory that Redis has in use.")
	usage := newReading(func(ctx context.Context) (both [2]int64, err error) {
		both[0], both[1], err = size(ctx)
		return both, err
	})
	m.registry.MustRegister(collector{described: []*prometheus.Desc{keys, used}, collect: func(show showFunc) {
		if both, ok := usage.get(); ok {
			show(keys, float64(both[0]))
			show(used, float64(both[1]))
		}
	}})
}
