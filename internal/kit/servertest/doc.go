// Package servertest starts Redis, Postgres, PgBouncer and browsers as private processes, so that
// tests run on the real servers. The fake mail server is deliver/delivery/smtptest.
//
// Tests and tools import it; the service does not. Each server listens on a loopback port of its
// own, keeps its files in a directory of its own, and ends with the process that started it, also
// when that process is killed. Tests call [Redis], [Cluster], [Postgres] and [Chromium], which skip
// (or fail, when CI=true) where the program is missing. Programs without a testing.TB call
// [StartRedis], [StartRedisCluster] and [StartPostgres].
package servertest
