package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Codes go to a prefix and none comes back, on Postgres and over two replicas: one pause, seen by both and after a restart.
// Nothing more leaves, the other channel is offered, the metric and the alert say so, and an operator's lifting ends it.
func TestPumpedPrefixRests(t *testing.T) {
	t.Parallel()
	c := newCostly(t)
	s := onRealParts(t).configured(`sms:
  countries: [DE]
  watch: {sends: 5}
  carriers: [{name: dear, type: http, url: "` + c.URL + `/", format: form, body: "to={to}&text={text}"}]
`)
	s.start(1)
	var ids []string
	for n := range 5 {
		ids = append(ids, s.text(0, fmt.Sprintf("+4915123456%03d", n)).ID)
	}
	s.await("five text messages", func() bool {
		for _, id := range ids {
			if s.do(0, http.MethodGet, "/v1/verifications/"+id, "").Send.Status != "sent" {
				return false
			}
		}
		return true
	})
	s.stop(0)
	db, err := pgx.Connect(t.Context(), s.env["SENDCODE_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	for _, statement := range []string{`UPDATE sends SET logged_at = logged_at - interval '20 minutes'`, `DELETE FROM turns`} {
		if _, err := db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s.start(2)
	first := len(s.replicas) - 2 // those before are stopped
	s.await("the pause", func() bool { return contains(s.printed, "text messages to a prefix are paused") })
	for i := first; i < first+2; i++ {
		a := s.text(i, fmt.Sprintf("+4915123457%03d", i))
		s.await("its outcome", func() bool {
			got := s.do(i, http.MethodGet, "/v1/verifications/"+a.ID, "")
			return got.Send.Status == "failed" && got.Send.Reason == "paused" && strings.Contains(string(got.raw), `"instead":"email"`)
		})
	}
	if n := c.requests(); n != 5 {
		t.Errorf("the carrier was asked %d times", n)
	}
	s.await("the metrics to say so once", func() bool {
		metrics := string(s.do(first, http.MethodGet, "/metrics", "").raw) + string(s.do(first+1, http.MethodGet, "/metrics", "").raw)
		return strings.Count(metrics, `sendcode_prefix_pauses_total{app="default",country="DE"} 1`) == 1 && strings.Count(metrics, "sendcode_prefixes_paused 1") == 2
	})
	list := s.do(first, http.MethodGet, "/v1/admin/prefixes", "", asAdmin)
	router := s.specificationOf(first)
	if err := conforms(router, http.MethodGet, "/v1/admin/prefixes", list); err != nil {
		t.Error(err)
	}
	_, id, _ := strings.Cut(string(list.raw), `"id":"`)
	lifted := s.do(first, http.MethodPost, "/v1/admin/prefixes/lift", `{"id":"`+id[:36]+`","reason":"ours"}`, asAdmin)
	if err := conforms(router, http.MethodPost, "/v1/admin/prefixes/lift", lifted); err != nil || lifted.status != http.StatusOK {
		t.Errorf("%d %s: %v", lifted.status, lifted.raw, err)
	}
	a := s.text(first+1, "+4915123458001")
	s.await("a text message again", func() bool {
		return s.do(first+1, http.MethodGet, "/v1/verifications/"+a.ID, "").Send.Status == "sent"
	})
}
