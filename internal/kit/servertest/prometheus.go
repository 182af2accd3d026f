package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sendcode/tools/ensure/locate"
)

// PrometheusServer scrapes the targets of a test.
type PrometheusServer struct{ *server }

// MetricsToken is the bearer token with which [Prometheus] scrapes.
const MetricsToken = "metrics-token-of-the-tests"

// Prometheus starts a Prometheus for one test, and closes it afterwards. As the job sendcode, it
// scrapes /metrics of targets (host:port) every two seconds.
func Prometheus(t testing.TB, targets ...string) *PrometheusServer {
	t.Helper()
	s, program := newServer(t, locate.Prometheus, syscall.SIGKILL)
	file := s.place.write(t, "prometheus.yml", fmt.Sprintf("global: {scrape_interval: 2s, scrape_timeout: 2s}\nscrape_configs:\n"+
		"  - {job_name: sendcode, authorization: {credentials: %s}, static_configs: [{targets: [\"%s\"]}]}\n",
		MetricsToken, strings.Join(targets, `", "`)))
	s.command = func() *exec.Cmd {
		return exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(s.place.dir, "data"),
			"--web.listen-address="+s.Addr())
	}
	s.probe = func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr()+"/-/ready", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", resp.Status)
		}
		return nil
	}
	return closeAfterTest(t, &PrometheusServer{s}, s.startOrClose(t.Context()))
}

// Sample is a value of a query, with its labels.
type Sample struct {
	Labels map[string]string
	Value  float64 // may be NaN
}

// Query evaluates an expression now and returns the instant vector.
func (p *PrometheusServer) Query(t testing.TB, expr string) (all []Sample) {
	t.Helper()
	resp, err := http.PostForm("http://"+p.Addr()+"/api/v1/query", url.Values{"query": {expr}})
	mustOrSkip(t, err)
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  [2]any // the time, and the value as text
			}
		}
	}
	mustOrSkip(t, json.NewDecoder(resp.Body).Decode(&answer))
	if answer.Error != "" || answer.Data.ResultType != "vector" {
		t.Fatalf("%s: %s %s", expr, answer.Error, answer.Data.ResultType)
	}
	for _, r := range answer.Data.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		mustOrSkip(t, err)
		all = append(all, Sample{r.Metric, value})
	}
	return all
}
