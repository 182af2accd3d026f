package metrics

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/failover"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"
)

var (
	described = regexp.MustCompile(`fqName: "([a-z_]+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	selected  = regexp.MustCompile(`(sendcode_[a-z_]+)(?:\{([^}]*)\})?`)
	labelName = regexp.MustCompile(`([a-z_]+)=`)
)

// labelsOfMetrics are the labels of every metric, by name.
func labelsOfMetrics(t *testing.T) map[string][]string {
	t.Helper()
	m := New()
	m.RegisterLimiter(nil)
	m.RegisterRebuilds(func() int64 { return 0 })
	m.RegisterClocks(func() time.Duration { return 0 })
	m.RegisterDatabaseWritable(func(context.Context) error { return nil })
	m.RegisterStorage(nil)
	m.RegisterMailServers(func() []failover.Health { return []failover.Health{{Server: "mx.example"}} })
	descs := make(chan *prometheus.Desc)
	go func() { m.registry.Describe(descs); close(descs) }()
	all := map[string][]string{}
	for d := range descs {
		if got := described.FindStringSubmatch(d.String()); got != nil {
			all[got[1]] = strings.Split(got[3], ",")
			for _, l := range labelName.FindAllStringSubmatch(got[2], -1) {
				all[got[1]] = append(all[got[1]], l[1])
			}
		}
	}
	return all
}

// The alert rules that the documents offer ask for metrics, and for labels, that there are.
func TestAlertsAskForMetricsThatThereAre(t *testing.T) {
	raw, err := os.ReadFile("../../docs/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	labels, n := labelsOfMetrics(t), 0
	for _, rule := range file.Groups[0].Rules {
		asked := selected.FindAllStringSubmatch(rule.Expr, -1)
		if rule.Alert == "" || rule.Annotations["summary"] == "" || len(asked) == 0 {
			t.Errorf("%+v", rule)
		}
		for _, a := range asked {
			known, there := labels[strings.TrimSuffix(a[1], "_count")]
			if !there {
				t.Errorf("%s: there is no metric %s; there are %v", rule.Alert, a[1], slices.Sorted(maps.Keys(labels)))
			}
			for _, l := range labelName.FindAllStringSubmatch(a[2], -1) {
				if !slices.Contains(known, l[1]) {
					t.Errorf("%s: %s has no label %s, but %v", rule.Alert, a[1], l[1], known)
				}
			}
			n++
		}
	}
	if n < 12 {
		t.Errorf("%d metrics are asked for", n)
	}
}
