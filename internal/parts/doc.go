// Package parts starts the real parts that sendcode talks to, Redis and
// Postgres, as private processes, so that tests meet the servers and not an
// idea of them.
//
// It stands outside the flow of a send: tests and tools import it, the service
// never does. Each server listens on a loopback port of its own, keeps its files
// in a directory of its own, and dies with the process that started it, also
// when that process is killed. Tests call [Redis], [Cluster], [Postgres] and [Chromium],
// which skip (or fail, when CI=true) where the program is missing; programs
// without a testing.TB call [StartRedis], [StartRedisCluster] and [StartPostgres].
package parts
