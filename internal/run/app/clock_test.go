package app_test

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/run/app"
	"sendcode/internal/run/app/apptest"
)

// A replica whose clock is wrong sends codes that another replica approves. The /readyz of the
// replica reports that its clock is wrong, and that of the other replica does not.
func TestReplicasTellTheDatabasesTime(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	s.Start(1)
	for i, off := range []time.Duration{11 * time.Minute, 50 * time.Hour, -50 * time.Hour} {
		a, err := app.NewWithClock(t.Context(), s.Config(), slog.New(slog.NewJSONHandler(s.Printed, nil)),
			func() time.Time { return time.Now().Add(off) })
		apptest.Must(t, err)
		s.Serve(a)
		to := "r" + strconv.Itoa(i) + "@example.com"
		sent := s.Ask(i+1, to)
		s.Is("a send, "+off.String(), sent, http.StatusAccepted)
		s.Approves(0, sent.ID, s.CodeIn(s.AwaitMail(to, 1)[0]))
		body := string(s.Do(i+1, http.MethodGet, "/readyz", "").Raw)
		ahead, err := strconv.ParseFloat(s.Metric(i+1, "sendcode_clock_offset_seconds"), 64)
		if err != nil || time.Duration(ahead*1e9)-off.Round(time.Second) > time.Minute ||
			off-time.Duration(ahead*1e9) > time.Minute || !strings.Contains(body, "degraded: clock_off: ") {
			t.Errorf("%v off: %v %v; %s", off, ahead, err, body)
		}
		if !s.Logged("clock off: let NTP run") {
			t.Error("nothing is logged")
		}
	}
	if body := string(s.Get("/readyz").Raw); strings.Contains(body, "clock_off") {
		t.Errorf("the first replica: %s", body)
	}
}
