package metrics

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/limit/admission"
	"sendcode/internal/run/disk"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// callBuckets are histogram buckets in seconds. They are used for calls of Redis, calls of the
// database and HTTP requests.
var callBuckets = []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 30}

// RegisterBuild adds a gauge that is always 1. Its labels are the version of the program and the
// version of Go.
func (m *Metrics) RegisterBuild(version string) {
	labels := prometheus.Labels{"version": version, "go": runtime.Version()}
	m.registerGauge("sendcode_build_info", "1; the labels name the version.", labels, func() float64 { return 1 })
}

// RegisterSettings adds a gauge, always 1, whose label is the hash of the settings in force.
func (m *Metrics) RegisterSettings(hash func() string) {
	info := prometheus.NewDesc("sendcode_settings_info",
		"1; the label is a hash of the settings in force, without secrets and without the "+
			"addresses that this replica listens on. It is the same where the settings are.", []string{"hash"}, nil)
	m.registry.MustRegister(collector{
		described: []*prometheus.Desc{info},
		collect:   func(show showFunc) { show(info, 1, hash()) },
	})
}

// RegisterBacklog adds gauges of the sends that have no outcome yet. While the database does not
// answer, the gauges are missing.
func (m *Metrics) RegisterBacklog(ask func(context.Context) (map[recipient.Channel]store.Backlog, error)) {
	backlog := newReading(ask)
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"channel"}, nil)
	}
	sends := desc("sendcode_outbox_sends", "Sends of all replicas without an outcome, counted up to 100,000.")
	oldest := desc("sendcode_outbox_oldest_seconds", "Age of the oldest of these sends.")
	m.registry.MustRegister(collector{described: []*prometheus.Desc{sends, oldest}, collect: func(show showFunc) {
		all, ok := backlog.get()
		for _, ch := range recipient.Channels() {
			if ok {
				show(sends, float64(all[ch].Sends), string(ch))
				show(oldest, all[ch].Age.Seconds(), string(ch))
			}
		}
	}})
}

// RegisterPools adds metrics of the pools of connections. read must not block.
func (m *Metrics) RegisterPools(read func() []store.PoolStats) {
	conns := prometheus.NewDesc("sendcode_pool_connections", "Connections of a pool, by state: in_use or idle.",
		[]string{"pool", "state"}, nil)
	waits := prometheus.NewDesc("sendcode_pool_waits_total",
		"How often a connection of a pool had to be waited for, or opened.",
		[]string{"pool"}, nil)
	m.registry.MustRegister(collector{
		described: []*prometheus.Desc{conns, waits}, counter: waits,
		collect: func(show showFunc) {
			for _, p := range read() {
				show(conns, float64(p.InUse), p.Name, "in_use")
				show(conns, float64(p.Idle), p.Name, "idle")
				show(waits, float64(p.Waits), p.Name)
			}
		},
	})
}

// RegisterAdmissions adds metrics of the requests under way. The keys of the map that read returns
// are "sends" and "checks". read must not block.
func (m *Metrics) RegisterAdmissions(read func() map[string]admission.Stats) {
	limit := prometheus.NewDesc("sendcode_admission_places",
		"How many sends or checks may be under way at once: as many as are decided in 4 s, "+
			"at least 512 and at most 1,024.", []string{"of"}, nil)
	under := prometheus.NewDesc("sendcode_admission_under_way",
		"Sends or checks that are being decided, by class: strangers have at most half of "+
			"the places.", []string{"of", "class"}, nil)
	refused := prometheus.NewDesc("sendcode_admission_refusals_total",
		"Sends or checks that were refused at once, since more came than can be "+
			"served in time, by class: stranger, known, or unread, where all places were taken and the class was not looked at.",
		[]string{"of", "class"}, nil)
	m.registry.MustRegister(collector{
		described: []*prometheus.Desc{limit, under, refused}, counter: refused,
		collect: func(show showFunc) {
			for of, a := range read() {
				show(limit, float64(a.Limit), of)
				for class, n := range a.UnderWay {
					show(under, float64(n), of, class)
				}
				for class, n := range a.Refused {
					show(refused, float64(n), of, class)
				}
			}
		},
	})
}

// RegisterSlowRefusals adds a counter of the sends that were refused because their messages would
// go out too late, and a gauge of the longest time that a new message of any app would wait. read
// must not block.
func (m *Metrics) RegisterSlowRefusals(read func(recipient.Channel) (known, strangers int, wait time.Duration)) {
	refusals := prometheus.NewDesc("sendcode_delivery_refusals_total",
		"Sends that were refused at once, since their messages would go out too late, "+
			"by class: stranger (without a secret key) or known.", []string{"channel", "class"}, nil)
	expected := prometheus.NewDesc("sendcode_delivery_expected_wait_seconds",
		"How long a new message of the app that waits longest would wait until it goes out; 0: none waits.", []string{"channel"}, nil)
	m.registry.MustRegister(collector{described: []*prometheus.Desc{refusals, expected}, counter: refusals, collect: func(show showFunc) {
		for _, ch := range recipient.Channels() {
			known, strangers, wait := read(ch)
			show(expected, wait.Seconds(), string(ch))
			show(refusals, float64(known), string(ch), admission.ClassKnown)
			show(refusals, float64(strangers), string(ch), admission.ClassStranger)
		}
	}})
}

// RegisterDisk adds gauges of the free space and the size of the disk that contains the directory
// dir. If the system does not report them, the gauges are missing.
func (m *Metrics) RegisterDisk(dir string) {
	free := prometheus.NewDesc("sendcode_disk_free_bytes", "Room left on the disk of the database's file.", nil, nil)
	size := prometheus.NewDesc("sendcode_disk_size_bytes", "Size of that disk.", nil, nil)
	m.registry.MustRegister(collector{described: []*prometheus.Desc{free, size}, collect: func(show showFunc) {
		if left, all, ok := disk.Space(dir); ok {
			show(free, left)
			show(size, all)
		}
	}})
}

// RegisterLastBackup adds a gauge of the time of the last backup of SQLite's file. While read
// returns watched = false, the gauge is missing.
func (m *Metrics) RegisterLastBackup(read func() (at time.Time, watched bool)) {
	last := prometheus.NewDesc("sendcode_last_backup_timestamp_seconds",
		"What instant the last copy by sendcode backup has; 0: there is none. Missing with Postgres, and before the first one "+
			"without a mail server.", nil, nil)
	m.registry.MustRegister(collector{described: []*prometheus.Desc{last}, collect: func(show showFunc) {
		if at, watched := read(); watched {
			show(last, unixSeconds(at))
		}
	}})
}

// RegisterStatementObserver adds a histogram of the durations of database calls for each kind of
// call, and returns a function that records one call. The histograms of kinds begin at 0.
func (m *Metrics) RegisterStatementObserver(kinds []string) func(kind string, took time.Duration) {
	return m.registerCallObserver("sendcode_statement_seconds", "Calls of the database, by kind, the wait for a connection included.",
		"kind", kinds)
}

// RegisterRedisCallObserver adds a histogram of the durations of Redis calls, and returns a
// function that records one call. The argument call is the Redis command, or "pipeline" for several
// commands in one round trip.
func (m *Metrics) RegisterRedisCallObserver() func(call string, took time.Duration) {
	return m.registerCallObserver("sendcode_redis_seconds", "Calls of Redis, by command.", "call",
		[]string{"evalsha", "pipeline", "ping"})
}

// registerCallObserver adds a histogram with one label, and returns a function that records the
// duration of one call. The histograms of the values in known begin at 0. The histogram of another
// value appears with the first call.
func (m *Metrics) registerCallObserver(name, help, label string, known []string) func(value string, took time.Duration) {
	seconds := promauto.With(m.registry).NewHistogramVec(
		prometheus.HistogramOpts{Name: name, Help: help, Buckets: callBuckets}, []string{label})
	for _, value := range known {
		seconds.WithLabelValues(value)
	}
	return func(value string, took time.Duration) { seconds.WithLabelValues(value).Observe(took.Seconds()) }
}

// InitHumanChecks creates the counters of an app's human check at 0.
func (m *Metrics) InitHumanChecks(app, vendor string) {
	for _, result := range []string{
		verification.CheckAsked, verification.CheckPassed, verification.CheckFailed,
		verification.CheckVendorError,
	} {
		m.humanChecks.WithLabelValues(app, vendor, result)
	}
}

// InitSpendCap creates the counter of a spend cap, at 0.
func (m *Metrics) InitSpendCap(name string) { m.spendRefusals.WithLabelValues(name) }

// deliveryClasses are the outcomes of an attempt at a mail server or carrier.
var deliveryClasses = []string{DeliveryAccepted, DeliveryChosen, "rejected", "temporary", "unknown"}

const (
	DeliveryAccepted = "accepted"  // the attempt did not fail
	DeliveryChosen   = "recipient" // the attempt failed because of a recipient that anyone may have chosen
)

// InitDeliveryServer creates the metrics of attempts at a mail server or carrier. The metrics begin
// at 0.
func (m *Metrics) InitDeliveryServer(ch recipient.Channel, server string) {
	for _, class := range deliveryClasses {
		m.attemptSeconds.WithLabelValues(string(ch), server, class)
	}
}

// DeliveryTried counts an attempt at a mail server or carrier.
func (m *Metrics) DeliveryTried(ch recipient.Channel, server, class string, took time.Duration) {
	m.attemptSeconds.WithLabelValues(string(ch), server, class).Observe(took.Seconds())
}

var statusClasses = []string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// InitRoutes creates the metrics of the API's routes, at 0.
func (m *Metrics) InitRoutes(routes []string) {
	for _, route := range routes {
		if strings.HasPrefix(route, "/v1/") && !strings.HasPrefix(route, "/v1/admin/") {
			for _, class := range []string{"2xx", "4xx", "5xx"} {
				m.requestSeconds.WithLabelValues(route, class)
			}
		}
	}
}

// Served counts an answer, by the route's template.
func (m *Metrics) Served(route string, status int, took time.Duration) {
	m.requestSeconds.WithLabelValues(route, statusClasses[min(max(status/100, 1), 5)-1]).Observe(took.Seconds())
}

// InitApp creates those counters of an app that alerts use, at 0. rules are the names of the rules
// that both the limiter and the database check, and unnamed is the name of the rule on back ends
// that name no client.
func (m *Metrics) InitApp(app string, channels []recipient.Channel, rules []string, unnamed string) {
	for _, ch := range channels {
		for _, outcome := range []string{"admitted", "unavailable"} {
			m.codeRequests.WithLabelValues(string(ch), app, outcome, "")
		}
		m.codeRequests.WithLabelValues(string(ch), app, "refused", unnamed)
		for _, rule := range rules {
			m.codeRequests.WithLabelValues(string(ch), app, "refused_by_database", rule)
		}
		for _, outcome := range []store.Status{store.Sent, store.Failed, store.Unknown} {
			m.sendSeconds.WithLabelValues(string(ch), app, string(outcome), labelOurCode)
		}
		m.sendSeconds.WithLabelValues(string(ch), app, string(store.Unknown), labelCallersCode)
		for _, outcome := range []string{"approved", "wrong"} {
			m.checks.WithLabelValues(string(ch), app, outcome)
		}
		m.checkBounds.WithLabelValues(string(ch), app, "app")
	}
	m.webhookAttempts.WithLabelValues(app, webhook.GivenUp)
}
