// Package servertest starts servers such as Redis, Postgres and HAProxy, and browsers, as private
// processes, so that tests run on the real programs. The fake mail server is
// deliver/delivery/smtptest.
//
// Tests and tools import it; the service does not. Each server listens on its own loopback port,
// and keeps its files in its own directory. On Linux, it ends with the process that started it,
// even if that process is killed. Tests call functions such as [Redis], [Cluster] and [Postgres].
// If the program is missing, these skip the test (with CI=true it fails). Programs without a
// testing.TB call [StartRedis], [StartRedisCluster] and [StartPostgres], or [KeepRedis] and
// [KeepPostgres] if the data must stay.
package servertest
