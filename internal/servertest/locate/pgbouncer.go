package locate

// PgBouncer is the connection pooler of Postgres.
func PgBouncer() Part {
	return Part{
		Name: "pgbouncer", Debian: []string{"pgbouncer"}, Homebrew: "pgbouncer",
		find: func() (string, bool) {
			if path, ok := inPath("pgbouncer")(); ok {
				return path, true
			}
			return firstFile("/usr/sbin/pgbouncer") // not in everybody's PATH
		},
	}
}
