package bench

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// measureMemory measures the service's memory, and how long it takes from the start of a process to its first 202, on a database that has
// its schema.
func (b *rig) measureMemory() string {
	_, most := memoryOf(b.contender(ours).process.pid())
	database, err := b.postgres.CreateDatabase(b.Context())
	b.must(err)
	var atStart float64
	var starts []float64
	for range b.rounds + 1 { // the first one makes the schema
		began := time.Now()
		c := b.startService(serviceSettings{dir: b.path("start"), database: database})
		x := caller{base: c.base}
		_, err = b.send(&x)
		starts = append(starts, float64(time.Since(began))/float64(time.Millisecond))
		x.close()
		b.must(err)
		atStart, _ = memoryOf(c.process.pid())
		b.end(c)
	}
	return fmt.Sprintf("%s resident after the start, %s at most in all runs. %s ms from the start to the first 202.\n",
		size(atStart), size(most), spreadOf(starts[1:]))
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
	cost := func(process string) float64 { return median(runs, cpu(process)) + median(b.checks, cpu(process)) }
	u := units{program: cost(inProgram), postgres: cost(inPostgres), redis: cost(inRedis), wal: median(runs, walBytes)}
	before, sends := b.redisMemory(), sendsFor(2*b.length)
	b.open(service, sends)
	u.key = max(0, b.redisMemory()-before) / float64(sends)
	u.row = b.bytesOfARow(service.database)
	return needs(u)
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
	retention  = 90   // days
	perReplica = 4    // processors of one replica
	pool       = 15   // connections of one replica to Postgres
	mailTime   = 0.3  // s that a mail server takes for a mail
	scattered  = 2    // index entries of a send that are in no order of time: its recipient, and the key of its verification
	pageSize   = 8192 // bytes
	day        = 24 * 60 * 60
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
	whole := func(n float64) string {
		if n < 1000 {
			return fmt.Sprintf("%.0f", n)
		}
		return number(n)
	}
	needed := func(sends float64) []string {
		peak := peakFactor * sends / day
		processors := func(each float64) float64 { return peak * each / 1e6 / busy }
		replicas := max(2, math.Ceil(processors(u.program)/perReplica)) // one may fail
		return []string{
			number(peak), number(processors(u.program)), whole(replicas), number(processors(u.postgres)), number(processors(u.redis)),
			size(sends * u.wal), size(sends * scattered * pageSize), size(sends * u.row * retention),
			whole(replicas * pool), whole(math.Ceil(peak * mailTime)), size(sends * u.key),
		}
	}
	g := newGrid("need", "10M sends a day", "100M sends a day")
	small, large := needed(10e6), needed(100e6)
	for i, name := range []string{
		"sends a second, peak", "processors for the program", "replicas", "processors for Postgres", "processors for Redis",
		"WAL a day", "whole pages in the WAL a day, at most", "disk for the log",
		"connections to Postgres", "connections to mail servers, peak", "memory of Redis",
	} {
		g.add(name, small[i], large[i])
	}
	return "Unit costs at 64 callers:\n\n" + measured.String() + fmt.Sprintf(`
Assumptions: one check for each send; the busiest second has %d times the mean; processors are at most %.0f %% busy then; rows are kept for %d
days; a replica has %d processors and %d connections to Postgres; a mail takes %.1f s; Redis keeps a recipient for a day.

`, peakFactor, busy*100, retention, perReplica, pool, mailTime) + g.String() + fmt.Sprintf(`
- If Redis needs more than one processor, use a Cluster. If Postgres needs more than one machine, divide the apps among installations.
- Postgres writes a whole page at its first change after a checkpoint: at most %d pages of 8 kB a send. Rarer checkpoints and
  `+"`wal_compression`"+` reduce it.
`, scattered)
}
