package operators

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
	"sendcode/internal/page/pagetest"
)

// lines are the log lines with a text, of any level.
func lines(s *apptest.Stack, message, holds string) (all []map[string]any) {
	s.Helper()
	for line := range strings.Lines(s.Printed.String()) {
		var l map[string]any
		if strings.Contains(line, `"msg":"`+message+`"`) && strings.Contains(line, holds) &&
			json.Unmarshal([]byte(line), &l) == nil {
			all = append(all, l)
		}
	}
	return all
}

// Profiles are served on an address of their own, to this machine alone.
func TestProfiles(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	cfg := s.Config()
	cfg.DebugAddr = "127.0.0.1:0"
	a, err := s.New(cfg)
	apptest.Must(t, err)
	s.Serve(a)
	base := "http://" + lines(s, "profiles served", "")[0]["address"].(string)
	for host, want := range map[string]int{"": http.StatusOK, "localhost:6060": http.StatusOK,
		"rebound.example:6060": http.StatusForbidden} {
		a, err := s.At(base, http.MethodGet, "/debug/pprof/heap", "", func(r *http.Request) { r.Host = host })
		apptest.Must(t, err)
		if a.StatusCode != want {
			t.Errorf("%q: %d", host, a.StatusCode)
		}
	}
	for _, public := range []string{"/debug/pprof/", "/debug/pprof/heap"} {
		if a := s.Get(public); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s of the API: %d", public, a.StatusCode)
		}
	}
}

// One ID leads from the caller's request through the answer, the access line and the attempt to the
// send's row, and back by the console; a problem and a send of the page have one too.
func TestOneThread(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Start(1)
	const id, to = "order-7f3a9c2e41b0", "bounce@simulator.test"
	given := func(r *http.Request) { r.Header.Set("X-Request-Id", id) }
	a := s.Ask(0, to, given)
	s.Is("a send", a, http.StatusAccepted, a.Header.Get("X-Request-Id") == id)
	s.Await("the attempt's line", func() bool { return len(lines(s, "delivery attempt failed", id)) == 1 })
	for message, want := range map[string]map[string]any{
		"request": {"request_id": id, "route": "/v1/verifications", "app": "default", "key": "api_key",
			"send": a.Send.ID},
		"delivery attempt failed": {
			"request_id": id, "send": a.Send.ID, "server": "127.0.0.1", "stage": "rcpt", "class": "rejected",
			"reply":      "550 5.1.1",
			"reply_text": "No such mailbox",
		},
	} {
		got := lines(s, message, id)
		for name, value := range want {
			if len(got) != 1 || got[0][name] != value {
				t.Errorf("%s: %s is not %v in %v", message, name, value, got)
			}
		}
	}
	if refused := s.Ask(0, "nobody", given); !strings.Contains(string(refused.Raw), `"request_id":"`+id+`"`) {
		t.Errorf("a problem: %s", refused.Raw)
	}
	found := func(request string) string {
		return string(s.Get("/v1/admin/sends?request="+request, apptest.AsAdmin).Raw)
	}
	if got := found(id); strings.Count(got, `"id"`) != 1 || !strings.Contains(got, a.Send.ID) {
		t.Errorf("the console finds %s", got)
	}
	_, err := pagetest.NewVisitor(s.Replicas[0].Base+"/").Post("", "send", "to", apptest.Ana)
	apptest.Must(t, err)
	s.AwaitMail(apptest.Ana, 1)
	posted := lines(s, "request", `"method":"POST","route":"/"`)
	if len(posted) != 1 || posted[0]["app"] != "default" ||
		!strings.Contains(found(posted[0]["request_id"].(string)), posted[0]["send"].(string)) {
		t.Errorf("a send of the page: %v", posted)
	}
}
