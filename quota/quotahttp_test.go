package quota_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

func decisions(t *rapid.T) quota.Decision {
	d := quota.Decision{At: time.UnixMicro(rapid.Int64Range(1e15, 2e15).Draw(t, "at")).UTC()}
	for i := range rapid.IntRange(1, 5).Draw(t, "rules") {
		w := time.Duration(rapid.IntRange(1, 2_678_400).Draw(t, "window")) * time.Second
		s := quota.State{Rule: quota.Rule{
			Name:   rapid.StringMatching(`[a-z][a-z0-9_-]{0,30}`).Draw(t, "name") + strconv.Itoa(i),
			Limit:  rapid.IntRange(1, 1000).Draw(t, "limit"),
			Window: w,
		}}
		s.Used = rapid.IntRange(0, 2*s.Limit).Draw(t, "used")
		if s.Used > 0 {
			s.ResetAfter = time.Duration(rapid.Int64Range(1, w.Microseconds()).Draw(t, "reset")) * time.Microsecond
		}
		if s.Used >= s.Limit {
			s.RetryAfter = time.Duration(rapid.Int64Range(1, w.Microseconds()).Draw(t, "retry")) * time.Microsecond
		}
		d.Rules = append(d.Rules, s)
	}
	return d
}

// The headers equal, byte by byte, the headers that a library for structured fields writes. If the
// library refuses a decision, it is refused here, too.
func TestSetRateLimitWritesStructuredFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := decisions(t)
		d.Rules[0].Name = rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,10}`)).Draw(t, "any name")
		d.Rules[0].Limit = rapid.OneOf(rapid.Int(), rapid.IntRange(-maxInteger-2, -maxInteger+2),
			rapid.IntRange(maxInteger-2, maxInteger+2)).Draw(t, "any limit")
		var policies httpsfv.List
		for _, s := range d.Rules {
			policies = append(policies, libraryItem(s.Name, "q", s.Limit, "w", quota.Seconds(s.Window)))
		}
		next, left := tightestRule(d)
		want, err := httpsfv.Marshal(policies)
		wantNext, err2 := httpsfv.Marshal(httpsfv.List{libraryItem(next.Name, "r", next.Remaining(), "t", quota.Seconds(left))})
		refused := err != nil || err2 != nil
		h := http.Header{}
		if own := quotahttp.SetRateLimit(h, d); (own != nil) != refused {
			t.Fatalf("%v; the library: %v, %v", own, err, err2)
		}
		if !refused && (h.Get("RateLimit-Policy") != want || h.Get("RateLimit") != wantNext) {
			t.Fatalf("%q\nwant %q and %q", h, want, wantNext)
		}
		if refused && len(h) > 0 {
			t.Fatalf("refused, but %q", h)
		}
	})
}

// maxInteger is the largest integer of a structured field (RFC 9651 section 3.3.1).
const maxInteger = 999_999_999_999_999

// tightestRule returns the rule that blocks longest or, if none blocks, the first rule with the
// fewest places left.
func tightestRule(d quota.Decision) (quota.State, time.Duration) {
	if s, blocked := d.Blocking(); blocked {
		return s, s.RetryAfter
	}
	least := slices.MinFunc(d.Rules, func(a, b quota.State) int { return a.Remaining() - b.Remaining() })
	return least, least.ResetAfter
}

func libraryItem(name, k1 string, v1 int, k2 string, v2 int) httpsfv.Item {
	item := httpsfv.NewItem(name)
	item.Params.Add(k1, int64(v1))
	item.Params.Add(k2, int64(v2))
	return item
}

// Header, body and decision agree: no wait is shorter than the wait of a blocking rule, and none is
// 0 while a rule blocks.
func TestWaitsOfHeaderAndBodyAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := decisions(t)
		h := http.Header{}
		if err := quotahttp.SetRateLimit(h, d); err != nil {
			t.Fatal(err)
		}
		policies, err := httpsfv.UnmarshalList(h.Values("RateLimit-Policy"))
		if err != nil || len(policies) != len(d.Rules) {
			t.Fatalf("%q: %v", h.Get("RateLimit-Policy"), err)
		}
		limits, err := httpsfv.UnmarshalList(h.Values("RateLimit"))
		if err != nil || len(limits) != 1 {
			t.Fatalf("%q: %v", h.Get("RateLimit"), err)
		}
		q := quotahttp.Describe(d)
		left, _ := limits[0].(httpsfv.Item).Params.Get("r")
		wait, _ := limits[0].(httpsfv.Item).Params.Get("t")
		if d.Allowed() {
			if q.RetryAfter != 0 || q.BlockedBy != "" || !q.Allowed || left.(int64) == 0 {
				t.Fatalf("allowed, but %+v %v", q, h)
			}
			return
		}
		quotahttp.SetRetryAfter(h, d.RetryAfter())
		problem := quotahttp.ProblemMembers(d)
		if q.Allowed || left.(int64) != 0 || wait.(int64) != int64(q.RetryAfter) || h.Get("Retry-After") != strconv.Itoa(q.RetryAfter) {
			t.Fatalf("blocked, but %+v %v", q, h)
		}
		for _, s := range d.Rules {
			rule := q.Rules[slices.IndexFunc(q.Rules, func(r quotahttp.Rule) bool { return r.Name == s.Name })]
			if rule.RetryAfter != quota.Seconds(s.RetryAfter) || rule.RetryAfter > q.RetryAfter {
				t.Fatalf("%+v of %+v", rule, s)
			}
			if s.RetryAfter > time.Duration(q.RetryAfter)*time.Second ||
				s.RetryAfter > time.Duration(problem["retry_after_ms"].(int64))*time.Millisecond {
				t.Fatalf("told %d s, but %s blocks for %v", q.RetryAfter, s.Name, s.RetryAfter)
			}
		}
		at, err := time.Parse(time.RFC3339, q.RetryAt)
		if err != nil || at.Before(d.At.Add(d.RetryAfter())) {
			t.Fatalf("retry_at %s is before %v + %v", q.RetryAt, d.At, d.RetryAfter())
		}
	})
}

// The headers name only public rules. An observing rule is not among them, since it limits no
// request.
func TestHeaders(t *testing.T) {
	state := func(name string, limit int, window time.Duration, used int, reset time.Duration) quota.State {
		return quota.State{Rule: quota.Rule{Name: name, Limit: limit, Window: window}, Used: used, ResetAfter: reset}
	}
	minute, hour := state("minute", 1, time.Minute, 0, 0), state("hour", 5, time.Hour, 4, 1500*time.Millisecond)
	full, trial := state("hour", 5, time.Hour, 5, 1500*time.Millisecond), state("trial", 1, time.Hour, 3, time.Hour)
	trial.Observe, trial.RetryAfter = true, time.Hour
	for _, c := range []struct {
		rules           []quota.State
		policies, limit string
	}{
		{[]quota.State{minute, hour}, `"minute";q=1;w=60, "hour";q=5;w=3600`, `"minute";r=1;t=0`},
		// RateLimit names the rule with the fewest places left; an observing rule never counts.
		{[]quota.State{minute, full}, `"minute";q=1;w=60, "hour";q=5;w=3600`, `"hour";r=0;t=2`},
		{[]quota.State{trial, hour}, `"hour";q=5;w=3600`, `"hour";r=1;t=2`},
		{[]quota.State{trial}, "", ""},
		{nil, "", ""},
	} {
		h, d := http.Header{}, quota.Decision{At: time.Unix(0, 0), Rules: c.rules}
		if err := quotahttp.SetRateLimit(h, d); err != nil || h.Get("RateLimit-Policy") != c.policies || h.Get("RateLimit") != c.limit {
			t.Errorf("%v, %v; want %s and %s", h, err, c.policies, c.limit)
		}
		if q := quotahttp.Describe(d); !q.Allowed || q.BlockedBy != "" || len(q.Rules) != strings.Count(c.policies, ";q=") {
			t.Errorf("%+v of %+v", q, d)
		}
	}
}
