//go:build nightly

package bench

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"sendcode/internal/store/postgres"
)

// measureMemory measures the service's memory, and how long it takes from the start of a process to
// its first 202, on a database that has its schema. The last process of them also serves a crowd,
// so its memory has nothing of other loads.
func (b *rig) measureMemory() string {
	_, most := memoryOf(b.contender(ours).process.PID())
	database, err := b.postgres.CreateDatabase(b.Context())
	b.must(err)
	var atStart, crowded float64
	var starts []float64
	for i := range b.rounds + 1 { // the first one makes the schema
		began := time.Now()
		c := b.startService(serviceSettings{dir: b.path("start"), database: database})
		x := caller{base: c.base}
		_, err = b.send(&x)
		starts = append(starts, float64(time.Since(began))/float64(time.Millisecond))
		x.close()
		b.must(err)
		atStart, _ = memoryOf(c.process.PID())
		if i == b.rounds {
			b.sends(c, b.crowd, 2*b.length)
			_, crowded = memoryOf(c.process.PID())
		}
		b.end(c)
	}
	b.goals.most("resident memory with 1,000 callers", 538*air, crowded/1e6, " MB")
	b.memory = fmt.Sprintf(
		"Memory: %s resident after the start, %s with %s callers, %s at most in all runs. %s ms from the start to the first 202.\n",
		size(atStart), size(crowded), number(float64(b.crowd)), size(max(most, crowded)), spreadOf(starts[1:]))
	return ""
}

// units are the costs of one send with its check, as measured.
type units struct {
	program, postgres, redis float64 // µs of processor time of a send at 64 callers, and of one check
	wal                      float64 // bytes, without whole pages
	row                      float64 // bytes of tables and indexes
	key                      float64 // bytes of Redis for a recipient
}

// measureNeeds measures what sends leave behind, and works out what so many sends a day need.
func (b *rig) measureNeeds() string {
	service, runs := b.contender(ours), runsOf(b.sent, ours, b.unitCallers())
	cost := func(process string) float64 {
		return median(runs, cpu(process)) + median(runsOf(b.others, rightCheck, b.unitCallers()), cpu(process))
	}
	b.units = units{program: cost(inProgram), postgres: cost(inPostgres), redis: cost(inRedis),
		wal: median(runs, walBytes)}
	before, sends := b.redisMemory(), 2*b.list
	b.open(service, "default", sends)
	b.units.key = max(0, b.redisMemory()-before) / float64(sends)
	b.goals.most("memory of Redis for a recipient", 162*air, b.units.key, " B")
	b.units.row = b.bytesOfARow(service.database)
	return needs(b.units)
}

// bytesOfARow is what a send takes on the disk, of all tables and their indexes.
func (b *rig) bytesOfARow(database string) (bytes float64) {
	conn, err := pgx.Connect(b.Context(), database)
	b.must(err)
	defer conn.Close(context.Background())
	b.must(conn.QueryRow(b.Context(), `
SELECT sum(pg_total_relation_size(c.oid))::float8 / (SELECT count(*) FROM sends) FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace`).Scan(&bytes))
	return bytes
}

// redisMemory is what Redis has in use, in bytes.
func (b *rig) redisMemory() float64 {
	client := redis.NewClient(&redis.Options{Addr: b.redis.Addr()})
	defer client.Close()
	memory, err := client.InfoMap(b.Context(), "memory").Result()
	b.must(err)
	used, err := strconv.ParseFloat(memory["Memory"]["used_memory"], 64)
	b.must(err)
	return used
}

// What the arithmetic takes for granted.
const (
	peakFactor = 4    // busiest second to mean
	busy       = 0.5  // how busy a processor may be at the peak
	retention  = 90   // days; a partition is dropped when its whole week is older
	perReplica = 4    // processors of one replica
	mostConns  = 1000 // of one replica to a mail server
	mailTime   = 0.3  // s that a mail server takes for a mail
	// index entries of a send that are in no order of time: its recipient, and the key of its
	// verification
	scattered = 2
	pageSize  = 8192 // bytes
	day       = 24 * 60 * 60
)

// needs are the arithmetic: unit costs, assumptions, results.
func needs(u units) string {
	measured := newGrid("unit", "measured")
	measured.add("processor time of a send and one check: the program", number(u.program)+" µs")
	measured.add("… Postgres", number(u.postgres)+" µs")
	measured.add("… Redis", number(u.redis)+" µs")
	measured.add("WAL of a send, without whole pages", size(u.wal))
	measured.add("tables and indexes of a send", size(u.row))
	measured.add("memory of Redis for a recipient", size(u.key))
	return "Unit costs at 64 callers:\n\n" + measured.String() + fmt.Sprintf(`
Assumed: one check for each send; the busiest second has %d times the mean, and processors are %.0f %% busy then; rows are kept for %d days and up to
a week; a replica has %d processors and %d connections to Postgres; a mail takes %.1f s; Redis keeps a recipient for a day.

`, peakFactor, busy*100, retention, perReplica, postgres.ConnsPerReplica, mailTime) + needed(u, 10e6, 100e6) + fmt.Sprintf(`
- **Whole pages**: Postgres writes one at its first change after a checkpoint: at most %d pages of 8 kB a send. Rarer checkpoints and
  `+"`wal_compression`"+` reduce it.
- **Mail connections**: `+"`conns`"+` is at most %d for a replica, and by default 4. A mail server that needs less than %.1f s needs fewer.
- **Disk**: sends go as whole weekly partitions; verifications row by row, one for each send: watch autovacuum.
- If Redis needs more than one processor, use a Cluster; if Postgres more than one machine, divide the apps among installations.
`, scattered, mostConns, mailTime)
}

// whole writes a number without a fraction of zeros.
func whole(n float64) string { return strings.TrimSuffix(strings.TrimSuffix(number(n), ".00"), ".0") }

// needed is what so many sends a day need, in one column for each number.
func needed(u units, sends ...float64) string {
	g := newGrid("need")
	for i, sends := range sends {
		peak := peakFactor * sends / day
		processors := func(each float64) float64 { return atPeak(sends, each) }
		mails := math.Ceil(peak * mailTime)
		replicas := max(2, math.Ceil(processors(u.program)/perReplica), math.Ceil(mails/mostConns)) // one may fail
		for row, line := range [][2]string{
			{"need", whole(sends/1e6) + "M a day"},
			{"sends a second, peak", number(peak)}, {"processors for the program", number(processors(u.program))},
			{"replicas", whole(replicas)},
			{"processors for Postgres", number(processors(u.postgres))},
			{"processors for Redis", number(processors(u.redis))},
			{"WAL a day", size(sends * u.wal)},
			{"whole pages in the WAL a day, at most", size(sends * scattered * pageSize)},
			{"disk for the database", size(sends * u.row * (retention + 7))},
			{"connections to Postgres", whole(replicas * postgres.ConnsPerReplica)},
			{"connections to mail servers, peak", whole(mails)}, {"memory of Redis", size(sends * u.key)},
		} {
			if i == 0 && row > 0 {
				g.add(line[0])
			}
			g.rows[row] = append(g.rows[row], line[1])
		}
	}
	return g.String()
}
