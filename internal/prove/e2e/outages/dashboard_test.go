//go:build nightly

package outages

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// dashboard is deploy/grafana/sendcode.json: the queries of its panels, by title.
type dashboard map[string][]string

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	raw, err := os.ReadFile("../../../../deploy/grafana/sendcode.json")
	apptest.Must(t, err)
	var file struct {
		Panels []struct {
			Type, Title, Description string
			Targets                  []struct{ Expr string }
		}
	}
	apptest.Must(t, json.Unmarshal(raw, &file))
	d := dashboard{}
	for _, p := range file.Panels {
		if p.Type == "row" {
			continue
		}
		if d[p.Title] != nil || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("the panel %q is there twice, says nothing, or asks nothing", p.Title)
		}
		for _, q := range p.Targets {
			// The interval spans several scrapes of a slow machine.
			d[p.Title] = append(d[p.Title], strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"))
		}
	}
	return d
}

// Each query of the dashboard has a value in a Prometheus that scrapes two services, one on
// Postgres and Redis, the other on SQLite.
func TestEachQueryOfTheDashboardHasValues(t *testing.T) {
	t.Parallel()
	carrier := apptest.NewCarrier(t)
	s := apptest.OnRealParts(t).Policy("    - {name: once, scope: recipient, limit: 1, window: 1h}\n" + `sms:
  countries: [DE]
  carriers: [{name: rest, type: http, url: "` + carrier.URL + `/", body: "to={to}&text={text}", prices: {default: 0.05}}]
  spend: [{scope: global, per: day, limit: 100}]
provider_events:
  - {name: post, scheme: basic, secret_env: POST_SECRET, message: [id], type: [type], outcomes: {Bounce: bounced}, recipient: [to]}
apps:
  - {name: shop, human_check: {by: turnstile, site_key: 0xSite, secret_env: POST_SECRET, hostnames: [shop.example]}}
`)
	s.Env["POST_SECRET"] = "a-secret-of-the-provider-and-ours"
	s.Start(1)
	alone := apptest.Embedded(t).Start(1)
	database, err := pgx.Connect(t.Context(), s.Env["SENDCODE_DATABASE_URL"])
	apptest.Must(t, err)
	t.Cleanup(func() { _ = database.Close(context.Background()) })
	_, err = database.Exec(t.Context(), `INSERT INTO low_conversions (id, app, since, sends, approved)
VALUES ('01981b2e-5f00-7000-8000-000000000001', 'shop', now(), 1000, 7)`) // the service would need a thousand sends for this
	apptest.Must(t, err)
	p, round := servertest.Prometheus(t, s.Replicas[0].Addr(), alone.Replicas[0].Addr()), 0
	for panel, queries := range readDashboard(t) {
		for _, query := range queries {
			s.Await(fmt.Sprintf("a value in %q of %s", panel, query), func() bool {
				if slices.ContainsFunc(p.Query(t, query), func(v servertest.Sample) bool { return !math.IsNaN(v.Value) }) {
					return true
				}
				round++
				to := fmt.Sprintf("r%d@example.com", round)
				// The strangers are of different networks. Without a client_ip, they would share
				// 1,000 sends an hour.
				body := fmt.Sprintf(`{"channel":"email","to":%q,"client_ip":"203.%d.%d.1"}`, to, round/200, round%200)
				a := s.Post("/v1/verifications", body, apptest.Patiently)
				s.Is("a send", a, http.StatusAccepted)
				s.Is("a second one", s.Post("/v1/verifications", body), http.StatusTooManyRequests)
				s.Approves(0, a.ID, s.CodeIn(s.AwaitMail(to, 1)[0]))
				return false
			})
		}
	}
}
