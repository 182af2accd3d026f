// Package metrics has the service's metrics for Prometheus. A label has few possible values. No
// label contains a recipient, an address or the ID of a request. The text of Help is the only
// documentation of a metric. docs/ARCHITECTURE.md says how to add an alert.
//
// For a new event, add a counter or histogram to New, and a method that counts the event. The
// package in which the event happens declares an interface for the method, or a field in its
// Settings, which internal/run/app sets. If an alert uses the counter, create it with the value 0
// at the start.
//
// For a new state, add a method Register… to gauges.go or parts.go. Package internal/run/app calls
// these methods. If a number cannot be read, its metric is missing or -1, not 0. Panels are in
// deploy/grafana/sendcode.json; prove/e2e/outages runs their queries.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sendcode/internal/base/panics"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/limit/applimits"
	"sendcode/internal/store"
)

// These are the outcomes of a reload of the configuration, for ConfigReloaded.
const (
	ReloadApplied   = "applied"
	ReloadUnchanged = "unchanged"
	ReloadRejected  = "rejected"
)

// Metrics has the service's metrics, and counts events. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	codeRequests, observedRefusals, checks, checkBounds, reloads, spendRefusals, webhookAttempts, providerEvents, prefixPauses,
	adminRefusals, limitRequests, humanChecks, jobFailures *prometheus.CounterVec

	sendSeconds, attemptSeconds, requestSeconds *prometheus.HistogramVec
	networkRefusals, limiterRebuilds            prometheus.Counter
	lastReloadOK                                prometheus.Gauge
}

// New registers the counters and histograms. Most series appear with their first event.
func New() *Metrics {
	registry := prometheus.NewRegistry()
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help,
			Buckets: buckets,
		}, labels)
	}
	m := &Metrics{
		registry: registry,
		codeRequests: counter("sendcode_requests_total", "Requests for a code, by what the two gates decided.",
			"channel", "app", "outcome", "rule"),
		observedRefusals: counter("sendcode_observed_refusals_total", "Sends that a rule in mode observe would have refused.",
			"channel", "app", "rule"),
		checks: counter("sendcode_checks_total", "Checks of a code, by outcome.", "channel", "app", "outcome"),
		checkBounds: counter("sendcode_check_bounds_total",
			"Checks that met a spent bound on failed checks, by bound: network and "+
				"wide_network refused them, app let them through and alarms.", "channel", "app", "bound"),
		humanChecks: counter("sendcode_human_checks_total",
			"Human checks, by result: asked (a request without a token), passed, failed, or vendor_error: it was away, and work is "+
				"offered.", "app", "by", "result"),
		providerEvents: counter("sendcode_provider_events_total", "Events that mail providers reported, by result.",
			"provider", "outcome"),
		reloads:       counter("sendcode_config_reloads_total", "Reloads of the configuration, by outcome.", "outcome"),
		spendRefusals: counter("sendcode_spend_refused_total", "Text messages that a spend cap stopped, by cap.", "cap"),
		webhookAttempts: counter("sendcode_webhook_attempts_total",
			"Attempts to deliver an event to an app's webhook, by outcome.", "app", "outcome"),
		prefixPauses: counter("sendcode_prefix_pauses_total",
			"Pauses of text messages to a prefix because few of its codes were entered, by app and "+
				"country.", "app", "country"),
		adminRefusals: counter("sendcode_admin_refusals_total",
			"Attempts to log in to the console, and wrong admin tokens, that a rule refused, by "+
				"rule.", "what", "rule"),
		limitRequests: counter("sendcode_limit_requests_total", "Requests under /v1/limits, by limit, operation and outcome.",
			"limit", "operation", "outcome"),
		jobFailures: counter("sendcode_job_failures_total", "Runs of a background job that failed, by its name.", "name"),
		networkRefusals: promauto.With(registry).NewCounter(prometheus.CounterOpts{
			Name: "sendcode_network_refusals_total",
			Help: "Requests of browsers that were refused because their network made too many.",
		}),
		limiterRebuilds: promauto.With(registry).NewCounter(prometheus.CounterOpts{
			Name: "sendcode_limiter_rebuilds_total",
			Help: "Histories of recipients added to the limiter from the database, which lacked events although it had answered.",
		}),
		sendSeconds: seconds("sendcode_send_seconds",
			"Time from the admission of a send to its outcome. code: ours, or caller, which is checked elsewhere.",
			[]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600}, "channel", "app",
			"outcome", "code"),
		attemptSeconds: seconds("sendcode_delivery_attempt_seconds",
			"Attempts at a mail server or carrier, by class: accepted, recipient (of a stranger's message, and at fault), rejected, temporary, unknown.",
			[]float64{.025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "channel", "server", "class"),
		requestSeconds: seconds("sendcode_http_request_seconds", "HTTP requests, by route and class of status.", callBuckets,
			"route", "status"),
	}
	m.lastReloadOK = promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "sendcode_config_last_reload_successful",
		Help: "1 while the configuration that was last read is a right one, 0 while it was rejected and the one before holds.",
	})
	m.lastReloadOK.Set(1)
	// These counters begin at 0, so that alerts on an increase see the first event.
	for where, n := range panics.Counts {
		promauto.With(registry).NewCounterFunc(prometheus.CounterOpts{
			Name: "sendcode_panics_total",
			Help: "Panics, by the work that each ended.", ConstLabels: prometheus.Labels{"where": where},
		},
			func() float64 { return float64(n.Load()) })
	}
	for _, outcome := range []string{ReloadApplied, ReloadUnchanged, ReloadRejected} {
		m.reloads.WithLabelValues(outcome)
	}
	for _, rule := range []string{"account", "account_day"} {
		m.adminRefusals.WithLabelValues("login", rule)
	}
	m.webhookAttempts.WithLabelValues("", webhook.GivenUp) // without an app: events that were undelivered for a week
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler returns the handler of /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Decided implements verification.Observer.
func (m *Metrics) Decided(ch recipient.Channel, app, outcome, rule string) {
	m.codeRequests.WithLabelValues(string(ch), app, outcome, rule).Inc()
}

// RuleWouldRefuse implements verification.Observer.
func (m *Metrics) RuleWouldRefuse(ch recipient.Channel, app, rule string) {
	m.observedRefusals.WithLabelValues(string(ch), app, rule).Inc()
}

// CountRebuild counts one rebuild of a history. In a rebuild, the service copies lost events from
// the database to the limiter.
func (m *Metrics) CountRebuild() { m.limiterRebuilds.Inc() }

// Checked implements verification.Observer.
func (m *Metrics) Checked(ch recipient.Channel, app, outcome string) {
	m.checks.WithLabelValues(string(ch), app, outcome).Inc()
}

// CheckBoundExceeded implements verification.Observer.
func (m *Metrics) CheckBoundExceeded(ch recipient.Channel, app, bound string) {
	m.checkBounds.WithLabelValues(string(ch), app, bound).Inc()
}

// HumanChecked implements verification.Observer.
func (m *Metrics) HumanChecked(app, vendor, result string) {
	m.humanChecks.WithLabelValues(app, vendor, result).Inc()
}

// labelOurCode is the value of the label "code" for sends whose code the service made.
const labelOurCode = "ours"

// labelCallersCode is the value of the label "code" for sends whose code the caller made.
const labelCallersCode = "caller"

// Finished implements outbox.Observer.
func (m *Metrics) Finished(ch recipient.Channel, app string, s store.Status, callersCode bool, d time.Duration) {
	code := labelOurCode
	if callersCode {
		code = labelCallersCode
	}
	m.sendSeconds.WithLabelValues(string(ch), app, string(s), code).Observe(d.Seconds())
}

// JobRan implements jobs.Observer. A job that has not failed is shown with 0.
func (m *Metrics) JobRan(job string, failed bool) {
	n := 0.0
	if failed {
		n = 1
	}
	m.jobFailures.WithLabelValues(job).Add(n)
}

// PrefixPaused implements jobs.Observer.
func (m *Metrics) PrefixPaused(app, country string) {
	m.prefixPauses.WithLabelValues(app, country).Inc()
}

// Attempted implements webhook.Observer.
func (m *Metrics) Attempted(app, outcome string) {
	m.webhookAttempts.WithLabelValues(app, outcome).Inc()
}

// AdminRefused counts a login, or a request with a wrong admin token, that a rule refused.
func (m *Metrics) AdminRefused(what, rule string) { m.adminRefusals.WithLabelValues(what, rule).Inc() }

// LimitAnswered counts an answer under /v1/limits.
func (m *Metrics) LimitAnswered(limit string, o applimits.Operation, outcome string) {
	m.limitRequests.WithLabelValues(limit, string(o), outcome).Inc()
}

// SpendRefused counts a text message that a cap stopped.
func (m *Metrics) SpendRefused(spendCap string) { m.spendRefusals.WithLabelValues(spendCap).Inc() }

// NetworkRefused counts a request that was refused because its network made too many requests.
func (m *Metrics) NetworkRefused() { m.networkRefusals.Inc() }

// ConfigReloaded counts a reload of the configuration. outcome is ReloadApplied, ReloadUnchanged or
// ReloadRejected.
func (m *Metrics) ConfigReloaded(outcome string) {
	m.reloads.WithLabelValues(outcome).Inc()
	m.lastReloadOK.Set(1)
	if outcome == ReloadRejected {
		m.lastReloadOK.Set(0)
	}
}

// ProviderEventReported counts an event that a mail provider reported.
func (m *Metrics) ProviderEventReported(provider, outcome string) {
	m.providerEvents.WithLabelValues(provider, outcome).Inc()
}

// InitProvider creates the counters of a provider's events with all outcomes at 0.
func (m *Metrics) InitProvider(name string, outcomes []string) {
	for _, outcome := range outcomes {
		m.providerEvents.WithLabelValues(name, outcome)
	}
}
