package metrics

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"
)

var (
	descPattern   = regexp.MustCompile(`fqName: "([a-z_]+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	metricPattern = regexp.MustCompile(`((?:sendcode|process)_[a-z_]+)(?:\{([^}]*)\})?`)
	labelName     = regexp.MustCompile(`([a-z_]+)=`)
)

// labelsOfMetrics returns the labels of every metric, by the metric's name. It fails the test if
// there is a Register… method that package app does not call.
func labelsOfMetrics(t *testing.T) map[string][]string {
	t.Helper()
	m, health := New(), func() []delivery.Health { return []delivery.Health{{Server: "app/one"}} }
	var app strings.Builder
	files, _ := filepath.Glob("../app/*.go") // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		servertest.OK(t, err)
		app.Write(text)
	}
	for i, of := 0, reflect.ValueOf(m); i < of.NumMethod(); i++ {
		name := of.Type().Method(i).Name
		if call := of.Method(i); strings.HasPrefix(name, "Register") {
			if !strings.Contains(app.String(), "metrics."+name+"(") {
				t.Errorf("nothing in run/app calls %s", name)
			}
			var in []reflect.Value // zero values are enough, since only health is called before metrics are collected
			for n := range call.Type().NumIn() {
				in = append(in, reflect.Zero(call.Type().In(n)))
				if in[n].Type() == reflect.TypeOf(health) {
					in[n] = reflect.ValueOf(health)
				}
			}
			call.Call(in)
		}
	}
	descs := make(chan *prometheus.Desc)
	go func() { m.registry.Describe(descs); close(descs) }()
	all := map[string][]string{}
	for d := range descs {
		if got := descPattern.FindStringSubmatch(d.String()); got != nil {
			all[got[1]] = strings.Split(got[3], ",")
			for _, l := range labelName.FindAllStringSubmatch(got[2], -1) {
				all[got[1]] = append(all[got[1]], l[1])
			}
		}
	}
	return all
}

// alertRule is read from docs/alerts.yaml, and written to a file for promtool.
type alertRule struct {
	Alert, Expr         string
	For                 string `yaml:",omitempty"`
	Labels, Annotations map[string]string
}

const alertsFile = "../../../docs/alerts.yaml"

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	raw, err := os.ReadFile(alertsFile)
	var file struct {
		Groups []struct{ Rules []alertRule }
	}
	servertest.OK(t, errors.Join(err, yaml.Unmarshal(raw, &file)))
	return file.Groups[0].Rules
}

// The alert rules in the documents use metrics and labels that exist, and name a section of the
// runbooks.
func TestAlertsAskForMetricsThatThereAre(t *testing.T) {
	labels, n := labelsOfMetrics(t), 0
	for _, rule := range alertRules(t) {
		asked := metricPattern.FindAllStringSubmatch(rule.Expr, -1)
		section, named := strings.CutPrefix(rule.Annotations["runbook"], "docs/runbooks.md#")
		if rule.Annotations["summary"] == "" || !slices.Contains([]string{"page", "ticket"}, rule.Labels["severity"]) || !named ||
			section == "" || len(asked) == 0 && !strings.Contains(rule.Expr, `{job="sendcode"}`) { // an alert on the job uses Prometheus's own metrics
			t.Errorf("%+v", rule)
		}
		for _, a := range asked {
			known, there := labels[strings.TrimSuffix(strings.TrimSuffix(a[1], "_count"), "_sum")]
			if !there {
				t.Errorf("%s: there is no metric %s; there are %v", rule.Alert, a[1], slices.Sorted(maps.Keys(labels)))
			}
			for _, l := range labelName.FindAllStringSubmatch(a[2], -1) {
				if !slices.Contains(known, l[1]) && l[1] != "job" { // Prometheus adds the job
					t.Errorf("%s: %s has no label %s, but %v", rule.Alert, a[1], l[1], known)
				}
			}
			n++
		}
	}
	if n < 25 {
		t.Errorf("%d metrics are asked for", n)
	}
}

// values are the values of series, by name, in steps of 15 s, in the form that promtool reads.
type values map[string]string

// firing says when an alert fires: not until the time quiet, but at the time fires, and not at the
// time ended. If fires or ended is 0, it is not tested.
type firing struct {
	alert               string
	quiet, fires, ended time.Duration
	series              values
}

// Each alert fires after the event that it is for, and not before. promtool runs the rules on
// made-up series. Counters begin at 0, as the service makes them, so that the first event is an
// increase.
func TestAlertsFireForTheFirstEvent(t *testing.T) {
	const m, soon = time.Minute, 3 * time.Minute
	const once, stays, up, down = "0+0x8 1+0x400", "0+0x400", "1+0x8 0+0x400", "0+0x8 0+3x400"
	const often = "0+2x400"
	sends := func(outcome, channel string) string {
		return `sendcode_send_seconds_count{outcome="` + outcome + `",app="a",channel="` + channel + `"}`
	}
	sent, oldest := sends("sent", "email"), `sendcode_outbox_oldest_seconds{channel="email"}`
	attempts := func(class string) string {
		return `sendcode_delivery_attempt_seconds_count{channel="email",server="mx:25",class="` + class + `"}`
	}
	accepted, rejected := attempts("accepted"), attempts("rejected")
	requests := func(labels string) string { return `sendcode_requests_total{outcome=` + labels + `}` }
	admitted, unavailable := requests(`"admitted"`), requests(`"unavailable"`)
	answers := func(labels string) string { return `sendcode_http_request_seconds_count{route="/v1/` + labels + `}` }
	overloaded := func(class string) string {
		return `sendcode_admission_refusals_total{of="sends",class="` + class + `"}`
	}
	const approved, approvedByMail = `sendcode_checks_total{outcome="approved"}`,
		`sendcode_checks_total{outcome="approved",channel="email"}`
	const serverA, serverB = `sendcode_mail_server_up{server="a",order="1"}`, `sendcode_mail_server_up{server="b",order="2"}`
	const certificate = `sendcode_mail_server_certificate_end_timestamp_seconds{server="a",order="1"}`
	const backup, database = `sendcode_last_backup_timestamp_seconds`, `sendcode_database_oldest_timestamp_seconds`
	const lost, tookRedis, askedRedis = `sendcode_limiter_rebuilds_total`, `sendcode_redis_seconds_sum{call="evalsha"}`,
		`sendcode_redis_seconds_count{call="evalsha"}`
	overruled := requests(`"refused_by_database"`)
	cases := []firing{
		{"SendcodeDown", 2 * m, 5 * m, 0, values{`up{job="sendcode"}`: up}},
		{"SendcodeDown", 1 * m, 3 * m, 0, values{`up{job="other"}`: stays}},
		{"SendcodeRestarts", 2 * m, soon, 19 * m, values{`process_start_time_seconds{job="sendcode"}`: "0+0x8 9+9x2 27+0x400"}},
		{"SendcodeRestarts", 20 * m, 0, 0, values{`process_start_time_seconds{job="sendcode"}`: "0+0x8 9+9x1 18+0x400"}}, // two rollouts
		{"SendcodeDatabaseAway", 2 * m, 4 * m, 0, values{`sendcode_database_writable`: up}},
		{"SendcodeUnavailable", 2 * m, soon, 0, values{unavailable: down, admitted: often}},
		{"SendcodeUnavailable", 2 * m, soon, 0, values{
			answers(`proofs/redeem",status="5xx"`): down, answers(`verifications",status="2xx"`): often,
		}},
		{"SendcodeUnavailable", 20 * m, 0, 0, values{unavailable: down, admitted: "0+90x400"}},
		{"SendcodeUnavailable", 20 * m, 0, 0, values{
			unavailable: down, admitted: often, answers(`verifications",status="5xx"`): down,
			`sendcode_delivery_refusals_total{channel="email",class="known"}`: down,
		}},
		{"SendcodeUnavailable", 2 * m, soon, 8 * m, values{
			requests(`"unavailable",instance="a"`): "0+0x8 0+3x12 36+0x400",
			requests(`"unavailable",instance="b"`): "0+0x8 0+3x12 36+0x400", requests(`"admitted",instance="b"`): often,
		}},
		{"SendcodeUnavailable", 20 * m, 0, 0, values{
			requests(`"unavailable",instance="a"`): down, requests(`"admitted",instance="b"`): often,
			answers(`proofs/redeem",status="5xx",instance="a"`): down, answers(`proofs/redeem",status="2xx",instance="b"`): often,
		}},
		{"SendcodeOverload", 2 * m, soon, 11 * m, values{
			overloaded("unread"): "0+0x8 0+30x12 360+0x400", admitted: "0+20x400", approved: "0+20x400",
		}},
		{"SendcodeOverload", 20 * m, 0, 0, values{overloaded("known"): "0+0x8 0+3x400", admitted: "0+40x400", approved: "0+20x400"}},
		{"SendcodeOverload", 20 * m, 0, 0, values{overloaded("known"): "0+0x8 4+0x400", admitted: stays, approved: stays}},
		{"SendcodeSendsWait", 3 * m, 4 * m, 0, values{oldest: "0+0x8 0+15x400", sent: stays}},
		{"SendcodeSendsWait", 20 * m, 0, 0, values{oldest: "90+0x400", sent: "0+1x400"}},
		{"SendcodeSendsLate", 2 * m, 6 * m, 0, values{oldest: "90+0x400", sent: "0+1x400"}},
		{
			"SendcodeDeliverySlow", 2 * m, soon, 0,
			values{`sendcode_delivery_refusals_total{channel="email",class="stranger"}`: "0+0x8 0+30x400"},
		},
		{"SendcodeAllServersSuspended", 4 * m, 6 * m, 0, values{serverA: up, serverB: "1+0x16 0+0x400"}},
		{"SendcodeAllServersSuspended", 2 * m, 4 * m, 0, values{`sendcode_sms_carrier_up{carrier="a",order="1"}`: up}},
		{"SendcodeServerSuspended", 10 * m, 13 * m, 0, values{serverA: up, serverB: "1+0x400"}},
		{"SendcodeServerSuspended", 10 * m, 13 * m, 0, values{`sendcode_sms_carrier_up{carrier="a",order="1"}`: up}},
		{
			"SendcodeDiskNearlyFull", 5 * m, 8 * m, 0,
			values{`sendcode_disk_free_bytes`: "50+0x8 9+0x400", `sendcode_disk_size_bytes`: "100+0x400"},
		},
		{"SendcodeDiskNearlyFull", 5 * m, 8 * m, 0, values{
			`node_filesystem_avail_bytes{mountpoint="/var/lib/postgresql"}`: "50+0x8 9+0x400",
			`node_filesystem_size_bytes{mountpoint="/var/lib/postgresql"}`:  "100+0x400",
		}},
		{"SendcodeBackupOld", 2 * m, soon, 0, values{backup: "-172680+0x400"}},                  // the series begin in 1970
		{"SendcodeBackupOld", 2 * m, soon, 0, values{backup: stays, database: "-172680+0x400"}}, // no backup was ever made
		{"SendcodeBackupOld", 20 * m, 0, 0, values{database: "-172680+0x400"}},                  // without a backup: a trial, or Postgres
		{"SendcodeDescriptors", 2 * m, 5 * m, 0, values{
			`process_open_fds{job="sendcode"}`: "80+0x8 81+0x400", `process_max_fds{job="sendcode"}`: "100+0x400",
		}},
		{"SendcodeGuessing", 10 * m, 20 * m, 0, values{`sendcode_checks_total{outcome="wrong"}`: "0+0x8 0+10x400", approved: "0+1x400"}},
		{"SendcodeAppUnderAttack", 2 * m, soon, 0, values{`sendcode_check_bounds_total{bound="app",app="a",channel="email"}`: once}},
		{"SendcodeClientsUnnamed", 2 * m, soon, 0, values{`sendcode_requests_total{outcome="refused",rule="unnamed",app="a",channel="email"}`: once}},
		{"SendcodeLowConversion", 2 * m, soon, 0, values{`sendcode_low_conversion{app="a"}`: once}},
		{"SendcodeFewCodesComeBack", 10 * m, 40 * m, 0, values{sent: "0+0x8 0+5x400", approvedByMail: stays}},
		{"SendcodeFewCodesComeBack", 40 * m, 0, 0, values{ // codes that their callers check
			sends("sent", `email",code="caller`): "0+0x8 0+5x400", approvedByMail: stays}},
		{"SendcodeSendsFail", 10 * m, 20 * m, 0, values{sent: "0+1x400", sends("failed", "email"): "0+0x8 0+2x400"}},
		// From minute 2 on, over 80 % of what is sent is refused. A page comes within two more
		// minutes.
		{"SendcodeSendsRefused", 2 * m, 3 * m, 0, values{accepted: "0+90x8 720+0x400", rejected: "0+0x8 0+90x400"}},
		{"SendcodeSendsRefused", 2 * m, 4 * m, 0, values{accepted: "0+3x8 24+0x400", rejected: "0+0x8 0+3x400"}},
		{"SendcodeSendsRefused", 2 * m, 4 * m, 0, values{accepted: "0+100x8 800+19x400", rejected: "0+0x8 0+81x400"}},
		{"SendcodeSendsRefused", 2 * m, soon, 0, values{accepted: stays, rejected: "0+0x8 21+0x400"}},
		{"SendcodeSendsRefused", 2 * m, soon, 8 * m, values{accepted: "0+0x20 0+5x400", rejected: "0+0x8 0+10x12 120+0x400"}},
		// 20 refusals within two minutes cause no page, and neither do 79 %.
		{"SendcodeSendsRefused", 10 * m, 0, 0, values{accepted: stays, rejected: "0+0x8 20+0x400"}},
		{"SendcodeSendsRefused", 20 * m, 0, 0, values{accepted: stays, rejected: "0+0x8 0+2.5x400"}},
		{"SendcodeSendsRefused", 20 * m, 0, 0, values{accepted: "0+100x8 800+21x400", rejected: "0+0x8 0+79x400"}},
		// SendcodeSendsRefused counts a replica that just started from its start
		{"SendcodeSendsRefused", 10 * m, 0, 0, values{accepted: "_x8 0+100x400", rejected: "_x8 0+20x400"}},
		{"SendcodeSendsRefused", 2 * m, 4 * m, 0, values{accepted: "_x8 0+0x400", rejected: "_x8 0+20x400"}},
		{"SendcodeSendsRefused", 20 * m, 0, 0, values{ // strangers choose addresses that do not exist
			accepted: "0+1x400", rejected: stays, attempts("recipient"): "0+100x400"}},
		{"SendcodeSendsRefused", 20 * m, 0, 0, values{ // mistyped addresses among many, and greylisting
			accepted: "0+100x400", rejected: "0+30x400", attempts("temporary"): "0+900x400"}},
		{"SendcodeUnknownSends", 2 * m, soon, 0, values{sends("unknown", "email"): "0+0x8 6+0x400"}},
		{"SendcodeCertificateEnds", 2 * m, soon, 4 * m, values{certificate: "1300000x8 1209000x4 1300000x400"}},
		{"SendcodeCertificateEnds", 20 * m, 0, 0, values{certificate: stays}}, // no connection by TLS yet
		{"SendcodeDatabaseSlow", 2 * m, 7 * m, 0, values{
			`sendcode_statement_seconds_sum{kind="begin"}`:   "0+0.1x8 1+6x400",
			`sendcode_statement_seconds_count{kind="begin"}`: "0+10x400",
		}},
		{"SendcodeClockOff", 2 * m, 4 * m, 0, values{`sendcode_clock_offset_seconds`: "4.9x8 -5.1x400"}},
		{"SendcodeRedisSlow", 2 * m, 7 * m, 0, values{
			`sendcode_redis_seconds_sum{call="pipeline"}`:   "0+0.01x8 0.1+3x400",
			`sendcode_redis_seconds_count{call="pipeline"}`: "0+10x400",
		}},
		{"SendcodeRedisAway", 5 * m, 8 * m, 0, values{`sendcode_limiter_up`: up}},
		{"SendcodeRedisForgets", 2 * m, soon, 6 * m, values{lost: "0+0x8 30+0x400"}},
		{"SendcodeRedisForgets", 2 * m, soon, 6 * m, values{overruled: "0+0x8 30+0x400", tookRedis: "0+0.01x400", askedRedis: "0+10x400"}},
		{"SendcodeRedisForgets", 20 * m, 0, 0, values{ // Redis is slow, so the database knows events that the limiter lacks
			lost: "0+0x8 30+3x400", overruled: "0+0x8 0+3x400", tookRedis: "0+3x400", askedRedis: "0+10x400"}},
		{"SendcodePrefixPaused", 2 * m, soon, 0, values{`sendcode_prefixes_paused`: once}},
		{"SendcodeSuppressionsHeld", 2 * m, soon, 0, values{`sendcode_suppressions_held{server="mx",words="550 5.1.1"}`: once}},
		{"SendcodeSpendCapReached", 2 * m, soon, 0, values{`sendcode_spend_refused_total{cap="day"}`: once}},
		{"SendcodeLoginAttacked", 2 * m, soon, 0, values{`sendcode_admin_refusals_total{what="login",rule="account"}`: once}},
		{
			"SendcodeConfigRejected", 2 * m, soon, 4*m + 15*time.Second,
			values{`sendcode_config_last_reload_successful`: "1+0x8 0+0x7 1+0x400"},
		},
		{"SendcodeSettingsDiffer", 10 * m, 25 * m, 60 * m, values{
			`sendcode_settings_info{instance="a",hash="1"}`: "1+0x400",
			`sendcode_settings_info{instance="b",hash="1"}`: "1+0x8 _x400",
			`sendcode_settings_info{instance="b",hash="2"}`: "_x8 1+0x180 _x400",
		}},
		{"SendcodeRoomForRows", 30 * m, 70 * m, 0, values{`sendcode_database_weeks_ahead`: "3+0x8 1+0x400"}},
		{"SendcodeDeletionLate", 30 * m, 70 * m, 0, values{`sendcode_retention_due_rows`: once}},
		{"SendcodeHumanCheckVendorAway", 10 * m, 13 * m, 0, values{`sendcode_human_check_vendor_up{app="a",by="turnstile"}`: up}},
		{"SendcodePanics", 2 * m, soon, 0, values{`sendcode_panics_total{where="attempt"}`: once}},
		{"SendcodeEventsLost", 2 * m, soon, 0, values{`sendcode_webhook_attempts_total{app="a",outcome="given_up"}`: once}},
		{"SendcodeEventsLost", 2 * m, soon, 0, values{`sendcode_provider_events_total{provider="p",outcome="forged"}`: once}},
	}
	promtool := servertest.Promtool(t)
	if out, err := exec.Command(promtool, "check", "rules", alertsFile).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir, run, ran := t.TempDir(), []string{"test", "rules"}, 0
	for _, rule := range alertRules(t) { // each in a file of its own, because promtool runs every rule of a file at each step of each case
		text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": rule.Alert, "rules": []any{rule}}}})
		servertest.OK(t, errors.Join(err, os.WriteFile(filepath.Join(dir, rule.Alert+".yaml"), text, 0o600)))
		var b strings.Builder
		fmt.Fprintf(&b, "rule_files: [%s.yaml]\nevaluation_interval: 15s\ntests:\n", rule.Alert)
		fires := false
		for _, c := range cases {
			if c.alert != rule.Alert {
				continue
			}
			fires, ran = fires || c.fires > 0, ran+1
			b.WriteString("- interval: 15s\n  input_series:\n")
			for name, steps := range c.series {
				fmt.Fprintf(&b, "  - {series: %q, values: %q}\n", name, steps)
			}
			firing := fmt.Sprintf(`ALERTS{alertname="%s",alertstate="firing"}`, c.alert)
			expr, ever := "count("+firing+")", fmt.Sprintf("count(count_over_time(%s[%v]))", firing, c.quiet)
			fmt.Fprintf(&b, "  promql_expr_test:\n  - {expr: %q, eval_time: %v, exp_samples: []}\n", ever, c.quiet)
			if c.fires > 0 {
				fmt.Fprintf(&b, "  - {expr: %q, eval_time: %v, exp_samples: [{labels: \"{}\", value: 1}]}\n", expr, c.fires)
			}
			if c.ended > 0 {
				fmt.Fprintf(&b, "  - {expr: %q, eval_time: %v, exp_samples: []}\n", expr, c.ended)
			}
		}
		if !fires {
			t.Errorf("%s is not tested", rule.Alert)
		}
		run = append(run, filepath.Join(dir, rule.Alert+"_test.yaml"))
		servertest.OK(t, os.WriteFile(run[len(run)-1], []byte(b.String()), 0o600))
	}
	servertest.Same(t, "cases of rules that there are", ran, len(cases))
	if out, err := exec.Command(promtool, run...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
