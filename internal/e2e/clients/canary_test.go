package clients

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/app/apptest"
)

// noCanary searches everything that is kept or was printed for the code and for the recipient.
func noCanary(s *apptest.Stack, code string) {
	s.Helper()
	sinks := map[string]string{"log lines": s.Printed.String(), "answers": s.Answered.String()}
	if s.Postgres != nil {
		sinks["database"] = s.Postgres.Dump(s.T)
		sinks["redis"] = dumpRedis(s)
	} else {
		sinks["database"] = dumpSQLite(s)
	}
	for name, content := range sinks {
		if content == "" {
			s.Errorf("%s: nothing to search", name)
		}
		if strings.Contains(content, "ana.maria") {
			s.Errorf("%s: the recipient is in the clear", name)
		}
		// Six digits turn up in times and hashes too, so only a code that stands alone counts.
		if apptest.StandsAlone(content, code) {
			s.Errorf("%s: the code is there", name)
		}
	}
}

func dumpRedis(s *apptest.Stack) string {
	s.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Redis.Addr()})
	defer c.Close()
	var b strings.Builder
	ctx := context.Background()
	keys := c.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		b.WriteString(keys.Val() + "\n" + c.Dump(ctx, keys.Val()).Val() + "\n")
		b.WriteString(strings.Join(c.ZRange(ctx, keys.Val(), 0, -1).Val(), "\n"))
	}
	if err := keys.Err(); err != nil {
		s.Fatal(err)
	}
	return b.String()
}

// dumpSQLite reads the files as they lie on disk, write-ahead log and all.
func dumpSQLite(s *apptest.Stack) string {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.Env["SENDCODE_DATA_DIR"], "sendcode.db*"))
	if err != nil || len(files) == 0 {
		s.Fatalf("no database in the data directory: %v", err)
	}
	var all []byte
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, content...)
	}
	return string(all)
}
