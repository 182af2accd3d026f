package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/app"
	"sendcode/internal/buckets"
	"sendcode/internal/config"
	"sendcode/internal/policy"
	address "sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// limiterAlone is the limiter as the service has it, without the rest of the service.
type limiterAlone struct {
	quota.Limiter
	client  redis.UniversalClient
	purpose policy.Purpose // as configured
	set     policy.Set
	checks  quota.Rule
	taken   atomic.Int64
}

// openLimiter makes the limiter with the default settings' rules.
func (b *rig) openLimiter() *limiterAlone {
	cfg, err := config.Load([]string{"SENDCODE_DATA_DIR=" + b.path("data-limiter")}, os.ReadFile)
	b.must(err)
	client, err := quota.OpenRedis("redis://" + b.redis.Addr() + "/0")
	b.must(err)
	b.Cleanup(func() { _ = client.Close() })
	set := cfg.PolicySet(time.Now())
	checks := set.Checks.App
	checks.Scope = quota.FailedChecks
	return &limiterAlone{
		Limiter: quota.NewRedis(client, app.RedisPrefix), client: client,
		purpose: set.Purposes[policy.DefaultPurpose], set: set, checks: checks,
	}
}

// takeOf takes a send to a new recipient, as the service does for a caller of this class: for a
// back end, or for a page's visitor, whose networks count too, and the spellings of the mailbox,
// and the app's failed checks.
func (l *limiterAlone) takeOf(class store.Class) func(context.Context) error {
	return func(ctx context.Context) error {
		n := l.taken.Add(1)
		s := buckets.Subject{App: "default", Channel: address.Email, Purpose: l.purpose}
		binary.BigEndian.PutUint64(s.Recipient[:], uint64(n))
		if class == store.SecretKeyClass {
			s.Purpose = l.set.ForBackEnd(s.Purpose, s.App, class, netip.Addr{})
		} else {
			s.IP = netip.AddrFrom4([4]byte{byte(20 + n>>22&63), byte(n >> 14), byte(n >> 6), byte(n)})
			s.Area.Mailbox = s.Recipient
			s.Purpose = l.set.ForBrowser(s.Purpose, s.App, class)
		}
		r := quota.Request{ID: fmt.Sprintf("%016d", n), Rules: s.Purpose.Policy.Rules, Buckets: s.Buckets()}
		if class != store.SecretKeyClass {
			observed := l.checks
			observed.Observe = true
			r.Rules, r.Buckets = append(slices.Clip(r.Rules), observed), maps.Clone(r.Buckets)
			r.Buckets[quota.FailedChecks] = buckets.AppFailedChecks(s.App, s.Channel)
		}
		d, err := l.Take(ctx, r)
		if err == nil && !d.Admitted {
			err = fmt.Errorf("%v refused take %d", d.Violated(), n)
		}
		return err
	}
}

// measureLimiter has what the service asks of the limiter, and a script that does nothing, take
// turns without HTTP and Postgres.
func (b *rig) measureLimiter() string {
	l, n := b.openLimiter(), b.unitCallers()
	bare := redis.NewScript("return 1")
	var all []*entry
	add := func(name string, call func(context.Context) error) {
		all = append(all, &entry{name: name, callers: n, cells: []string{name},
			measure: func() run { return b.together(n, b.length/2, call) }})
	}
	add("a send of a back end", l.takeOf(store.SecretKeyClass))
	add("a send of a page", l.takeOf(store.UnknownBrowser))
	add("a script that returns 1",
		func(ctx context.Context) error { return bare.Run(ctx, l.client, []string{"bare"}).Err() })
	memory := make([][]float64, len(all))
	for i, e := range all {
		measure := e.measure
		e.measure = func() run {
			before := b.redisMemory()
			r := measure()
			memory[i] = append(memory[i], max(0, b.redisMemory()-before)/float64(r.sends))
			return r
		}
	}
	b.inTurns(all)
	ofBare := func(runs []run) float64 { return ratio(runs, all[2].runs, cpu(inRedis)) }
	b.goals.most("Redis for a send of a back end ÷ bare script", 2.55*air, ofBare(all[0].runs), "")
	b.goals.most("Redis for a send of a page ÷ bare script", 7.6*air, ofBare(all[1].runs), "")
	g := table([]string{"decision"}, all, rates("a second"), medians("Redis, µs", cpu(inRedis)),
		column{"÷ bare script", func(runs []run) string { return number(ofBare(runs)) }})
	g.rows[0] = append(g.rows[0], "memory, B")
	for i := range all[:2] {
		g.rows[i+1] = append(g.rows[i+1], number(spreadOf(memory[i][1:]).median)) // without the round that warms up
	}
	g.rows[3] = append(g.rows[3], "–")
	return fmt.Sprintf(
		"The limiter as the service calls it, with the rules of all scopes, without HTTP and Postgres: %d callers, each recipient, and each page's network, new. "+
			"[More](../quota/README.md#how-fast).\n\n%s", n, g.String())
}

// together has callers call until the time is over; the run has the processor time of Redis alone.
func (b *rig) together(callers int, length time.Duration, call func(context.Context) error) run {
	before := usageOf(b.redis.PID())
	began := time.Now()
	made := b.ask(contender{name: "the limiter"}, callers, length, func(*caller) (int64, error) {
		return 0, call(b.Context())
	})
	took := time.Since(began)
	after := usageOf(b.redis.PID())
	return run{sends: len(made), took: took,
		cpu: used(map[string]usage{inRedis: before}, map[string]usage{inRedis: after})}
}

// asksAsMuch fails the test unless the limiter alone is asked what the service asks for a send: the
// same script with as many buckets and the same arguments, but for the ID.
func (b *rig) asksAsMuch() {
	b.Helper()
	service := b.scriptsOf(func() {
		x := caller{base: b.contender(ours).base}
		defer x.close()
		_, err := b.send(&x)
		b.must(err)
	})
	l := b.openLimiter()
	alone := b.scriptsOf(func() { b.must(l.takeOf(store.SecretKeyClass)(b.Context())) })
	if len(alone) != 1 || !slices.Contains(service, alone[0]) {
		b.Errorf("the service asks Redis\n%s\nand the limiter alone\n%s", strings.Join(service, "\n"),
			strings.Join(alone, "\n"))
	}
}

// scriptsOf returns what Redis was asked meanwhile by EVALSHA, without the names of keys and the
// first argument.
func (b *rig) scriptsOf(do func()) (all []string) {
	conn, err := net.Dial("tcp", b.redis.Addr())
	b.must(err)
	defer conn.Close()
	b.must(conn.SetDeadline(time.Now().Add(settle)))
	_, err = conn.Write([]byte("MONITOR\r\n"))
	b.must(err)
	lines := bufio.NewScanner(conn)
	lines.Scan() // +OK
	do()
	marker := fmt.Sprintf("bench-%d", b.recipients.Add(1))
	client := redis.NewClient(&redis.Options{Addr: b.redis.Addr()})
	defer client.Close()
	b.must(client.Echo(b.Context(), marker).Err())
	for lines.Scan() && !strings.Contains(lines.Text(), marker) {
		_, command, _ := strings.Cut(lines.Text(), "] ")
		fields := quoted(command)
		if len(fields) < 4 || strings.ToLower(fields[0]) != `"evalsha"` {
			continue
		}
		var keys int
		if _, err := fmt.Sscanf(fields[2], `"%d"`, &keys); err == nil && len(fields) > 3+keys {
			all = append(all, strings.Join(append(fields[1:3:3], fields[4+keys:]...), " "))
		}
	}
	b.must(lines.Err())
	return all
}

// quoted returns the arguments of a line of MONITOR, with their quotes. Redis writes each byte of
// an argument that is no printable character with a backslash, as Go does; a space stays as it is,
// and the name of a bucket may have one.
func quoted(line string) (all []string) {
	for {
		line = strings.TrimPrefix(line, " ")
		field, err := strconv.QuotedPrefix(line)
		if err != nil {
			return all
		}
		all, line = append(all, field), line[len(field):]
	}
}

func TestArgumentsOfMonitor(t *testing.T) {
	const line = `"EVALSHA" "698d" "1" "a b\" c\xff\n" "take"`
	want := []string{`"EVALSHA"`, `"698d"`, `"1"`, `"a b\" c\xff\n"`, `"take"`}
	if got := quoted(line); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
