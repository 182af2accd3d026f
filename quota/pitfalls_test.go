package quota

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// pitfallCall is a call of a limiter: when, by which clock of the caller, and with which member of
// the sorted set.
type pitfallCall struct {
	at     time.Duration // since the case began
	ahead  time.Duration // of the caller's clock
	member string
}

// inARow are so many, one each step, with members of their own.
func inARow(n int, step time.Duration) (all []pitfallCall) {
	for i := range n {
		all = append(all, pitfallCall{at: time.Duration(i) * step, member: fmt.Sprint("m", i)})
	}
	return all
}

// after returns calls that come later by d.
func after(calls []pitfallCall, d time.Duration) []pitfallCall {
	for i := range calls {
		calls[i].at += d
	}
	return calls
}

// Each script of docs/SIX-LIMITERS.md lets through what the pages in both languages say, beside
// ours.
func TestSixLimitersLetThroughWhatThePageSays(t *testing.T) {
	pages := map[string]string{}
	for _, name := range []string{"SIX-LIMITERS.md", "SIX-LIMITERS.zh-CN.md"} {
		raw, err := os.ReadFile("../docs/" + name)
		must(t, err)
		pages[name] = string(raw)
	}
	scripts := regexp.MustCompile("(?s)```lua\n(.*?)```")
	shown := scripts.FindAllStringSubmatch(pages["SIX-LIMITERS.md"], -1)
	berlin := zone(t, "Europe/Berlin")
	monday := time.Date(2040, 10, 22, 0, 10, 0, 0, berlin) // the clock is turned back on Sunday
	w := redisWorld(t)
	client := w.Limiter.(*Redis).client
	rows := ""
	row := func(calls, through, right int) { rows += fmt.Sprintf("| %d | %d | %d |\n", calls, through, right) }
	for _, c := range []struct {
		script int // of the page
		sent   int // already, at the beginning
		calls  []pitfallCall
		rules  []Rule
		begin  time.Time
		fails  string
	}{
		{0, 0, inARow(1, 0), defaults, epoch, "arithmetic on"},
		{0, 1, []pitfallCall{{ahead: time.Minute, member: "a"}}, defaults, epoch, ""},
		{1, 0, []pitfallCall{{}, {}, {}, {}, {}}, []Rule{sliding(Recipient, 3, time.Second)}, epoch, ""},
		{
			1, 0, append(inARow(3, 0), pitfallCall{at: time.Minute, member: "x"}, pitfallCall{at: time.Minute, member: "y"}),
			[]Rule{sliding(Recipient, 3, time.Second)},
			epoch, "",
		},
		{
			2, 0,
			[]pitfallCall{
				{member: "a"},
				{at: 24 * time.Hour, member: "b"},
				{at: 48 * time.Hour, member: "c"},
				{at: 168*time.Hour + 40*time.Minute, member: "d"},
			},
			[]Rule{{Name: "week", Scope: Recipient, Limit: 3, Days: 7, Zone: berlin}},
			monday, "",
		},
		{3, 0, inARow(200, 250*time.Microsecond), []Rule{sliding(Recipient, 100, time.Minute)}, epoch.Truncate(time.Second), ""},
		{4, 0, inARow(3, 0), []Rule{{Name: "hour", Scope: Recipient, Limit: 3, Per: Hour}}, epoch, ""},
		{5, 0, inARow(4, time.Minute), []Rule{sliding(Recipient, 3, time.Hour)}, epoch, ""},
		{
			6, 0, slices.Concat(inARow(1, 0), after(inARow(4, 0), time.Hour-time.Second), after(inARow(5, 0), time.Hour+time.Second)),
			[]Rule{sliding(Recipient, 5, time.Hour)},
			epoch, "",
		},
		{
			7, 0, append(inARow(5, 0), after(inARow(4, 12*time.Minute), 12*time.Minute)...),
			[]Rule{sliding(Recipient, 5, time.Hour)},
			epoch, "",
		},
	} {
		w.flush()
		w.set(c.begin)
		through, right := 0, 0
		for n := range c.sent {
			must(t, client.ZAdd(t.Context(), "theirs", redis.Z{Score: float64(c.begin.UnixMilli()), Member: n}).Err())
			w.takeID(fmt.Sprint("sent", n), c.rules...)
		}
		for n, call := range c.calls {
			w.set(c.begin.Add(call.at))
			said, err := client.Eval(t.Context(), shown[c.script][1], []string{"theirs"},
				w.now.Add(call.ahead).UnixMilli(), call.member).Int()
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("script %d: %v", c.script, err)
			}
			through += said
			if w.takeID(fmt.Sprint(n), c.rules...).Admitted {
				right++
			}
		}
		row(len(c.calls), through, right)
	}
	// Two callers look before either adds.
	w.flush()
	through, right := 0, 0
	for range 2 {
		used, err := client.ZCard(t.Context(), "theirs").Result()
		must(t, err)
		through += map[bool]int{true: 1}[used < 1]
		right += map[bool]int{true: 1}[w.take(sliding(Recipient, 1, time.Minute)).Admitted]
	}
	row(2, through, right)
	// A refused call of the fifth prolongs the hour.
	w.flush()
	must(t, client.Set(t.Context(), "theirs", 3, time.Minute).Err())
	must(t, client.Eval(t.Context(), shown[4][1], []string{"theirs"}).Err())
	if ttl := client.TTL(t.Context(), "theirs").Val(); ttl <= time.Minute {
		t.Errorf("a refused call leaves %v of a minute", ttl)
	}
	for name, page := range pages {
		said := strings.Join(regexp.MustCompile(`(?m)\| \d+ \| \d+ \| \d+ \|\n`).FindAllString(page, -1), "")
		same(t, name, said, rows)
	}
}
