package clients

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/servertest"
)

// documented are the snippets of docs/policies.md that have limits, by the beginnings of their
// chapters' titles.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/policies.md")
	apptest.Must(t, err)
	found := map[string]string{}
	for _, chapter := range strings.Split(string(page), "\n## ")[1:] {
		title, body, _ := strings.Cut(chapter, "\n")
		title, _, _ = strings.Cut(title, ":")
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(body, -1) {
			if strings.Contains(block[1], "limits:\n") {
				found[title] = block[1]
			}
		}
	}
	return found
}

// driven is how a documented limit goes.
type driven struct {
	chapter, limit, keys string
	by                   string // the operation that counts: take, or record where another rule refuses sooner
	let                  int    // events until rule refuses
	rule                 string // that refuses then
	ends                 func(first, now time.Time) time.Time
	others               []string // keys that count apart
}

// sliding is a place that comes back when the first event is so old.
func sliding(window time.Duration) func(first, now time.Time) time.Time {
	return func(first, _ time.Time) time.Time { return first.Add(window) }
}

// turn is a place that comes back at a turn of a calendar, so many hours east of UTC.
func turn(east int, at func(y int, m time.Month, d, hour int) time.Time) func(first, now time.Time) time.Time {
	return func(_, now time.Time) time.Time {
		local := now.In(time.FixedZone("", east*3600))
		y, m, d := local.Date()
		return at(y, m, d, local.Hour()).Add(-time.Duration(east) * time.Hour)
	}
}

// midnight is that of Shanghai, after so many days.
func midnight(days int) func(first, now time.Time) time.Time {
	return turn(8, func(y int, m time.Month, d, _ int) time.Time {
		return time.Date(y, m, d+days, 0, 0, 0, 0,
			time.UTC)
	})
}

// The six systems, by the words of the document itself: each lets in what it says, refuses by the
// rule and until the millisecond that it says, counts other keys apart, also at 200 callers, and
// leaves no key in Redis that outlives its window.
func TestTheDocumentedPolicies(t *testing.T) {
	t.Parallel()
	const phone, user = `{"phone":"+4915112345678"}`, `{"user":"42"}`
	nextHour := turn(0, func(y int, m time.Month, d, hour int) time.Time {
		return time.Date(y, m, d, hour+1, 0, 0, 0,
			time.UTC)
	})
	nextMonth := turn(0, func(y int, m time.Month, _, _ int) time.Time {
		return time.Date(y, m+1, 1, 0, 0, 0, 0,
			time.UTC)
	})
	systems := []driven{
		{"Codes", "codes", phone, "take", 1, "minute", sliding(time.Minute), []string{`{"phone":"+4915112345679"}`}},
		{"Codes", "codes", `{"phone":"+4915112345670"}`, "record", 5, "hour", sliding(time.Hour), nil},
		{"Codes", "codes", `{"phone":"+4915112345671"}`, "record", 10, "day", sliding(24 * time.Hour), nil},
		{"Gifts and notices", "gift", user, "take", 1, "today", midnight(1), []string{`{"user":"43"}`}},
		{"Gifts and notices", "gift", `{"user":"44"}`, "record", 3, "week", midnight(7), nil},
		{"A web resource", "web", `{"resource":"/a","ip":"203.0.113.9"}`, "take", 100, "minute", sliding(time.Minute),
			[]string{`{"resource":"/b","ip":"203.0.113.9"}`, `{"resource":"/a","ip":"203.0.113.8"}`}},
		{"Fixed", "clock", phone, "take", 3, "hour", nextHour, []string{`{"phone":"+4915112345679"}`}},
		{"Sliding", "sliding", phone, "take", 3, "hour", sliding(time.Hour), []string{`{"phone":"+4915112345679"}`}},
		{"A free trial", "month", user, "take", 3, "month", nextMonth, []string{`{"user":"43"}`}},
	}
	longest := map[string]time.Duration{ // of the windows; a zone may turn its clock back
		"Codes": 24 * time.Hour, "Gifts and notices": 7*24*time.Hour + 4*time.Hour, "A web resource": time.Minute,
		"Fixed": time.Hour, "Sliding": time.Hour, "A free trial": 31 * 24 * time.Hour, "A gateway": time.Second,
	}
	alone, cluster := servertest.Redis(t), servertest.Cluster(t)
	for kind, servers := range map[string]struct {
		url   string
		nodes []*servertest.RedisServer
	}{"in process": {}, "Redis": {alone.URL(), []*servertest.RedisServer{alone}},
		"Cluster": {cluster.URL(), cluster.Nodes}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for chapter, yaml := range documented(t) {
				t.Run(chapter, func(t *testing.T) {
					empty(t, servers.nodes)
					s := apptest.Embedded(t).Write(yaml)
					if servers.url != "" {
						s.Env["SENDCODE_REDIS_URL"] = servers.url + servertest.Patiently
					}
					s.Start(1)
					drives := slices.DeleteFunc(slices.Clone(systems),
						func(d driven) bool { return d.chapter != chapter })
					for _, d := range drives {
						d.drive(s)
					}
					if chapter == "A gateway" {
						driveGateway(s)
					} else if len(drives) == 0 {
						t.Error("nothing drives this chapter")
					}
					for _, ttl := range ttls(t, servers.nodes) {
						if ttl < 0 || ttl > longest[chapter]+time.Minute {
							t.Errorf("a key ends in %v", ttl)
						}
					}
				})
			}
		})
	}
}

// The lines of docs/SIX-LIMITERS.md, in both languages: each is admitted, and a second code or gift
// is not.
func TestTheLinesOfSixLimiters(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"SIX-LIMITERS.md", "SIX-LIMITERS.zh-CN.md"} {
		page, err := os.ReadFile("../../../docs/" + name)
		apptest.Must(t, err)
		blocks := func(language string) (all []string) {
			for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(page),
				-1) {
				all = append(all, m[1])
			}
			return all
		}
		s := apptest.Embedded(t).Write(blocks("yaml")[0])
		s.Start(1)
		take := regexp.MustCompile(`(?m)^take\(\) .*$`).FindString(string(page))
		lines := blocks("sh")
		if len(lines) != 6 {
			t.Errorf("%s has %d lines", name, len(lines))
		}
		for _, line := range lines {
			for n := range 2 {
				curl := exec.Command("sh", "-c", take+"\n"+line)
				curl.Env = append(os.Environ(), "CODES_URL="+s.Replicas[0].Base, "CODES_KEY="+s.Key)
				out, err := curl.Output()
				once := strings.Contains(line, "take codes ") || strings.Contains(line, "take gift ")
				want := map[bool]string{false: "HTTP/1.1 200 ", true: "HTTP/1.1 429 "}[once && n == 1]
				if err != nil || !strings.HasPrefix(string(out), want) {
					t.Errorf("%s: not %q: %v\n%s%s", name, want, err, line, out)
				}
			}
		}
	}
}

func empty(t *testing.T, servers []*servertest.RedisServer) {
	t.Helper()
	for _, server := range servers {
		apptest.Must(t, server.Client(t).FlushAll(t.Context()).Err())
	}
}

// ttls are when each key in Redis ends; -1 ns: never.
func ttls(t *testing.T, servers []*servertest.RedisServer) (all []time.Duration) {
	t.Helper()
	for _, server := range servers {
		c := server.Client(t)
		keys, err := c.Keys(t.Context(), "*").Result()
		apptest.Must(t, err)
		for _, key := range keys {
			if ttl := c.PTTL(t.Context(), key).Val(); ttl != -2 { // which has ended meanwhile
				all = append(all, ttl)
			}
		}
	}
	return all
}

// askLimit asks a limit; keys is JSON.
func askLimit(s *apptest.Stack, operation, limit, keys string) apptest.Answer {
	s.Helper()
	return s.Post("/v1/limits/"+limit+"/"+operation, `{"keys":`+keys+`}`)
}

// drive has a limit let in what it says: one event after the other, and of 200 callers at once on
// another key.
func (d driven) drive(s *apptest.Stack) {
	s.Helper()
	d.refused(s)
	if looked := askLimit(s, "peek", d.limit, d.keys); looked.StatusCode != http.StatusOK || looked.Quota.Allowed ||
		looked.Quota.BlockedBy != d.rule {
		s.Errorf("%s: a look: %d %s", d.limit, looked.StatusCode, looked.Raw)
	}
	for _, other := range d.others {
		if let, refused := atOnce(s, 200, 1, d.limit, other); let != d.let || let+refused != 200 {
			s.Errorf("%s let %d of 200 in and refused %d, want %d", d.limit, let, refused, d.let)
		}
	}
}

// atOnce has callers take a limit one time after the other, all at once, and counts the takes that
// were let in and refused.
func atOnce(s *apptest.Stack, callers, times int, limit, keys string) (let, refused int) {
	s.Helper()
	var in, out atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range times {
				switch a := askLimit(s, "take", limit, keys); {
				case a.StatusCode == http.StatusOK:
					in.Add(1)
				case a.StatusCode == http.StatusTooManyRequests && a.RetryAfterMS > 0:
					out.Add(1)
				default:
					s.Errorf("%s: %d %s", limit, a.StatusCode, a.Raw)
				}
			}
		})
	}
	all.Wait()
	return int(in.Load()), int(out.Load())
}

// refused has as many events let in as the limit says, and the next one refused, by the rule and
// until the instant that the limit says.
func (d driven) refused(s *apptest.Stack) {
	s.Helper()
	// all shall happen on one side of a turn
	if wait := time.Until(d.ends(time.Now(), time.Now())); wait < 5*time.Second {
		apptest.Sleep(wait)
	}
	began := time.Now()
	var first time.Time // by when the first event was counted
	for n := range d.let {
		s.Is(fmt.Sprintf("%s: event %d", d.limit, n+1), askLimit(s, d.by, d.limit, d.keys), http.StatusOK)
		if n == 0 {
			first = time.Now()
		}
	}
	before := time.Now()
	a := askLimit(s, "take", d.limit, d.keys)
	after := time.Now()
	least, most := d.ends(began, before).Sub(after).Milliseconds(), d.ends(first, after).Sub(before).Milliseconds()+1
	if a.StatusCode != http.StatusTooManyRequests || a.BlockedBy != d.rule || int64(a.RetryAfterMS) < least ||
		int64(a.RetryAfterMS) > most {
		s.Errorf("%s after %d: %d, %s for %d ms, want %s for %d to %d: %s", d.limit, d.let, a.StatusCode, a.BlockedBy,
			a.RetryAfterMS, d.rule, least, most, a.Raw)
	}
}

// driveGateway has 50 callers ask for more than 1,000 in a second.
func driveGateway(s *apptest.Stack) {
	s.Helper()
	began := time.Now()
	let, refused := atOnce(s, 50, 30, "route", `{"route":"/many"}`)
	// In time T at most 1,000 for each second begun, and no place is refused while there are some.
	if most := 1000 * (1 + int(time.Since(began)/time.Second)); let > most || let < 1000 || let+refused != 1500 {
		s.Errorf("%d let in of 1,500 within %v, at most %d are right", let, time.Since(began), most)
	}
}
