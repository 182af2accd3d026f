package operators

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/app/apptest"
)

// Codes go to a prefix and none comes back, on Postgres and over two replicas: one pause, seen by both and after a restart.
// Nothing more leaves, the other channel is offered, the metric and the alert say so, and an operator's lifting ends it.
func TestPumpedPrefixRests(t *testing.T) {
	t.Parallel()
	c := newCostly(t)
	s := configured(apptest.OnRealParts(t), `sms:
  countries: [DE]
  watch: {sends: 5}
  carriers: [{name: dear, type: http, url: "`+c.URL+`/", format: form, body: "to={to}&text={text}"}]
`)
	s.Start(1)
	var ids []string
	for n := range 5 {
		ids = append(ids, text(s, 0, fmt.Sprintf("+4915123456%03d", n)).ID)
	}
	s.Await("five text messages", func() bool {
		for _, id := range ids {
			if s.Do(0, http.MethodGet, "/v1/verifications/"+id, "").Send.Status != "sent" {
				return false
			}
		}
		return true
	})
	s.Stop(0)
	db, err := pgx.Connect(t.Context(), s.Env["SENDCODE_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	for _, statement := range []string{`UPDATE sends SET logged_at = logged_at - interval '20 minutes'`, `DELETE FROM turns`} {
		if _, err := db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s.Start(2)
	first := len(s.Replicas) - 2 // those before are stopped
	s.Await("the pause", func() bool { return apptest.Contains(s.Printed, "text messages to a prefix are paused") })
	for i := first; i < first+2; i++ {
		a := text(s, i, fmt.Sprintf("+4915123457%03d", i))
		s.Await("its outcome", func() bool {
			got := s.Do(i, http.MethodGet, "/v1/verifications/"+a.ID, "")
			return got.Send.Status == "failed" && got.Send.Reason == "paused" && strings.Contains(string(got.Raw), `"instead":"email"`)
		})
	}
	if n := c.requests(); n != 5 {
		t.Errorf("the carrier was asked %d times", n)
	}
	s.Await("the metrics to say so once", func() bool {
		metrics := string(s.Do(first, http.MethodGet, "/metrics", "").Raw) + string(s.Do(first+1, http.MethodGet, "/metrics", "").Raw)
		return strings.Count(metrics, `sendcode_prefix_pauses_total{app="default",country="DE"} 1`) == 1 && strings.Count(metrics, "sendcode_prefixes_paused 1") == 2
	})
	list := s.Do(first, http.MethodGet, "/v1/admin/prefixes", "", apptest.AsAdmin)
	router := s.SpecificationOf(first)
	if err := apptest.Conforms(router, http.MethodGet, "/v1/admin/prefixes", list); err != nil {
		t.Error(err)
	}
	_, id, _ := strings.Cut(string(list.Raw), `"id":"`)
	lifted := s.Do(first, http.MethodPost, "/v1/admin/prefixes/lift", `{"id":"`+id[:36]+`","reason":"ours"}`, apptest.AsAdmin)
	if err := apptest.Conforms(router, http.MethodPost, "/v1/admin/prefixes/lift", lifted); err != nil || lifted.StatusCode != http.StatusOK {
		t.Errorf("%d %s: %v", lifted.StatusCode, lifted.Raw, err)
	}
	a := text(s, first+1, "+4915123458001")
	s.Await("a text message again", func() bool {
		return s.Do(first+1, http.MethodGet, "/v1/verifications/"+a.ID, "").Send.Status == "sent"
	})
}
