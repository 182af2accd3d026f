package app

import (
	"context"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sendcode/internal/api"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/failover"
	"sendcode/internal/limits"
	"sendcode/internal/recipient"
	"sendcode/internal/sms"
	"sendcode/internal/store"
)

// metrics hears of what happened. Labels are a handful of words each, never a recipient, an address or an ID (OPS-6).
type metrics struct {
	registry *prometheus.Registry
	decided  *prometheus.CounterVec
	observed *prometheus.CounterVec
	finished *prometheus.HistogramVec
	checked  *prometheus.CounterVec
	bounds   *prometheus.CounterVec
	reloads  *prometheus.CounterVec
	stopped  *prometheus.CounterVec
	hooks    *prometheus.CounterVec
	hookAge  *prometheus.HistogramVec
	events   *prometheus.CounterVec
	pumped   *prometheus.CounterVec
	crowded  prometheus.Counter
	logins   *prometheus.CounterVec
	limits   *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		decided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sendcode_requests_total", Help: "Requests for a code, by what the two gates decided.",
		}, []string{"channel", "app", "outcome", "rule"}),
		observed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sendcode_observed_refusals_total", Help: "Sends that a rule in mode observe would have refused.",
		}, []string{"channel", "app", "rule"}),
		finished: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sendcode_send_seconds", Help: "Time from the log's entry of a send to its outcome.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600},
		}, []string{"channel", "app", "outcome"}),
		checked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sendcode_checks_total", Help: "Checks of a code, by outcome.",
		}, []string{"channel", "app", "outcome"}),
		bounds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sendcode_check_bounds_total", Help: "Checks that met a spent bound on failed checks, by bound: network and wide_network " +
				"refused them, app let them through and alarms.",
		}, []string{"channel", "app", "bound"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sendcode_provider_events_total", Help: "What mail providers told of messages, by what became of it.",
		}, []string{"provider", "outcome"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sendcode_config_reloads_total", Help: "Times that the configuration was read again while running, by outcome.",
		}, []string{"outcome"}),
		stopped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sendcode_spend_refused_total", Help: "Text messages that a spend cap stopped, by cap.",
		}, []string{"cap"}),
	}
	m.pumped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sendcode_prefix_pauses_total", Help: "Pauses of text messages to a prefix because hardly any code came back, by app and country.",
	}, []string{"app", "country"})
	m.crowded = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sendcode_network_refusals_total", Help: "Requests of browsers that were refused because their network made too many.",
	})
	m.logins = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sendcode_admin_refusals_total", Help: "Attempts to log in to the console, and wrong admin tokens, that a rule refused, by rule.",
	}, []string{"what", "rule"})
	m.limits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sendcode_limit_requests_total", Help: "Requests under /v1/limits, by limit, operation and outcome.",
	}, []string{"limit", "operation", "outcome"})
	m.hooks, m.hookAge = newHookMetrics()
	for _, outcome := range []string{applied, unchanged, rejected} {
		m.reloads.WithLabelValues(outcome) // there from the start, at 0
	}
	m.registry.MustRegister(m.decided, m.observed, m.finished, m.checked, m.bounds, m.reloads, m.stopped, m.hooks, m.hookAge, m.events,
		m.pumped, m.crowded, m.logins, m.limits, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// adminRefused counts an attempt to log in, or a wrong admin token, that a rule refused.
func (m *metrics) adminRefused(what, rule string) { m.logins.WithLabelValues(what, rule).Inc() }

// limited counts an answer of a limit.
func (m *metrics) limited(limit string, o limits.Operation, outcome string) {
	m.limits.WithLabelValues(limit, string(o), outcome).Inc()
}

// capped counts a text message that a cap stopped.
func (m *metrics) capped(spendCap string) { m.stopped.WithLabelValues(spendCap).Inc() }

// watch adds what the limiter says at each scrape: whether it decides now. One in this process always does.
func (m *metrics) watch(ping func(context.Context) error) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sendcode_limiter_up", Help: "1 while the limiter answers, 0 while the log decides alone.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), watchTimeout)
		defer cancel()
		if ping != nil && ping(ctx) != nil {
			return 0
		}
		return 1
	}))
}

// rebuilds adds how often the limiter was given what it may have lost.
func (m *metrics) rebuilds(n func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "sendcode_limiter_rebuilds_total",
		Help: "Histories of recipients that were written from the log into the limiter, which may have lost them.",
	}, func() float64 { return float64(n()) }))
}

// writable adds whether the log can be written, asked at each scrape.
func (m *metrics) writable(check func(context.Context) error) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sendcode_log_writable", Help: "1 while rows can be written, 0 while nothing can be sent: the database is away, full or read-only.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), watchTimeout)
		defer cancel()
		if check(ctx) != nil {
			return 0
		}
		return 1
	}))
}

// watchTimeout is less than a scrape waits.
const watchTimeout = time.Second

// Decided implements verification.Observer.
func (m *metrics) Decided(ch recipient.Channel, app, outcome, rule string) {
	m.decided.WithLabelValues(string(ch), app, outcome, rule).Inc()
}

// Observed implements verification.Observer.
func (m *metrics) Observed(ch recipient.Channel, app, rule string) {
	m.observed.WithLabelValues(string(ch), app, rule).Inc()
}

// Finished implements verification.Observer.
func (m *metrics) Finished(ch recipient.Channel, app string, s store.Status, d time.Duration) {
	m.finished.WithLabelValues(string(ch), app, string(s)).Observe(d.Seconds())
}

// Checked implements verification.Observer.
func (m *metrics) Checked(ch recipient.Channel, app, outcome string) {
	m.checked.WithLabelValues(string(ch), app, outcome).Inc()
}

// CheckBound implements verification.Observer.
func (m *metrics) CheckBound(ch recipient.Channel, app, bound string) {
	m.bounds.WithLabelValues(string(ch), app, bound).Inc()
}

// PrefixPaused implements verification.Observer.
func (m *metrics) PrefixPaused(app, country string) { m.pumped.WithLabelValues(app, country).Inc() }

// pausedPrefixes shows how many hold now; -1 where the log does not say.
func (m *metrics) pausedPrefixes(holding func(context.Context) (int, error)) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sendcode_prefixes_paused", Help: "Prefixes to which text messages rest now, at most 200; -1: the log does not answer.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), watchTimeout)
		defer cancel()
		n, err := holding(ctx)
		if err != nil {
			return -1
		}
		return float64(n)
	}))
}

// provider shows each outcome from the start, at 0.
func (m *metrics) provider(name string) {
	for _, outcome := range api.ProviderOutcomes {
		m.events.WithLabelValues(name, outcome)
	}
}

func (m *metrics) told(provider, outcome string) { m.events.WithLabelValues(provider, outcome).Inc() }

// mailServers shows of each server whether mails go to it.
func (m *metrics) mailServers(servers smtp.Servers) {
	m.up("sendcode_mail_server_up", "1 while mails go to the server, 0 while it is set aside after failures.", "server", servers.Health)
}

// carriers shows the same of each carrier of text messages.
func (m *metrics) carriers(all *sms.Carriers) {
	m.up("sendcode_sms_carrier_up", "1 while text messages go to the carrier, 0 while it is set aside after failures.", "carrier", all.Health)
}

// up shows of each of several whether it is in use. The order is a label too, since one may be configured twice, with two logins.
func (m *metrics) up(name, help, label string, health func() []failover.Health) {
	for n, h := range health() {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{label: h.Server, "order": strconv.Itoa(n + 1)},
		}, func() float64 {
			if health()[n].Up {
				return 1
			}
			return 0
		}))
	}
}

// apiKeys shows when each key was used last, so that one that is not used any more can be taken away.
func (m *metrics) apiKeys(keys func() api.Keys) { m.registry.MustRegister(keyUse{keys}) }

// keyUse is a prometheus.Collector: which keys there are changes while the service runs.
type keyUse struct{ keys func() api.Keys }

var keyUseDesc = prometheus.NewDesc("sendcode_api_key_last_used_timestamp_seconds",
	"When a request came with the key; 0: not since this process started.", []string{"app", "key"}, nil)

// Describe implements prometheus.Collector.
func (keyUse) Describe(out chan<- *prometheus.Desc) { out <- keyUseDesc }

// Collect implements prometheus.Collector.
func (u keyUse) Collect(out chan<- prometheus.Metric) {
	for _, k := range u.keys() {
		used := 0.0
		if at := k.LastUsed(); !at.IsZero() {
			used = float64(at.UnixMilli()) / 1000
		}
		out <- prometheus.MustNewConstMetric(keyUseDesc, prometheus.GaugeValue, used, k.App, k.ID)
	}
}

func (m *metrics) register(e *echo.Echo, guards ...echo.MiddlewareFunc) {
	e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})), guards...)
}
