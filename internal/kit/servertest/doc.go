// Package servertest starts Redis, Postgres, PgBouncer and browsers as private processes, so that
// tests run on the real servers. The fake mail server is deliver/delivery/smtptest.
//
// Tests and tools import it; the service does not. Each server listens on its own loopback port,
// and keeps its files in its own directory. On Linux, it ends with the process that started it,
// even if that process is killed. Tests call [Redis], [Cluster], [Postgres] and [Chromium]. If the
// program is missing, these skip the test (with CI=true it fails). Programs without a testing.TB
// call [StartRedis], [StartRedisCluster] and [StartPostgres].
package servertest
