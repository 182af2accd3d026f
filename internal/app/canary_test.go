package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

// noCanary searches everything that is kept or was printed for the code and for the recipient.
func (s *stack) noCanary(code string) {
	s.Helper()
	sinks := map[string]string{"log lines": s.printed.String(), "answers": s.answered.String()}
	if s.postgres != nil {
		sinks["database"] = s.postgres.Dump(s.T)
		sinks["redis"] = s.dumpRedis()
	} else {
		sinks["database"] = s.dumpSQLite()
	}
	for name, content := range sinks {
		if content == "" {
			s.Errorf("%s: nothing to search", name)
		}
		if strings.Contains(content, "ana.maria") {
			s.Errorf("%s: the recipient is in the clear", name)
		}
		// Six digits turn up in times and hashes too, so only a code that stands alone counts.
		if standsAlone(content, code) {
			s.Errorf("%s: the code is there", name)
		}
	}
}

func standsAlone(content, code string) bool {
	for rest := content; ; {
		i := strings.Index(rest, code)
		if i < 0 {
			return false
		}
		before, after := byte(' '), byte(' ')
		if i > 0 {
			before = rest[i-1]
		}
		if end := i + len(code); end < len(rest) {
			after = rest[end]
		}
		if !wordByte(before) && !wordByte(after) {
			return true
		}
		rest = rest[i+1:]
	}
}

func wordByte(b byte) bool {
	return b == '.' || b == '-' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

func (s *stack) dumpRedis() string {
	s.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
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
func (s *stack) dumpSQLite() string {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.env["SENDCODE_DATA_DIR"], "sendcode.db*"))
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
