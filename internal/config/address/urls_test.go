package address

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

func TestURLsThatAreAccepted(t *testing.T) {
	for check, accepted := range map[*func(string) string][]string{
		new(CheckDatabase): {
			"postgres://h/d", "postgresql://u@h:5432/d", "postgres://u:p%40%2F@h1:1,h2/d?sslmode=disable", "postgres:///d?host=/var/run/postgresql", "postgres://u:p@[::1]:5432/d",
			"postgres://h",
		},
		new(CheckRedis): {
			"redis://h", "redis://:p@h:6379/1", "rediss://u:p@[::1]/0?pool_size=5&min_idle_conns=2", "redis+sentinel://u:p@h1,h2:26379/master/0",
			"redis+sentinel://[::1]:26379,h2/master?sentinel_password=p%26q", "redis+cluster://h1,h2", "rediss+cluster://u:p%40@h1:7000,[::1]?pool_size=5&min_idle_conns=2",
		},
		new(CheckSMTP): {
			"smtp://h", "smtps://u%40shop.example:p%2Fw@h:465", "smtp://u:p@h1, smtp://[::1]:2525?tls=none", "smtp://h?tls=opportunistic&hello=shop.example",
		},
	} {
		for _, text := range accepted {
			if problem := (*check)(text); problem != "" {
				t.Errorf("%s: %s", text, problem)
			}
		}
	}
}

// What is accepted, pgx reads as it was meant: it has a parser of its own, with other ideas of where a password ends.
func TestPostgresReadsTheSameURL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		user, password := rapid.StringN(1, 12, -1).Draw(t, "user"), rapid.StringN(1, 12, -1).Draw(t, "password")
		u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: "db.example:5433", Path: "/d"}
		if CheckDatabase(u.String()) != "" {
			return
		}
		c, err := pgx.ParseConfig(u.String())
		if err != nil {
			t.Fatalf("accepted, but pgx says: %v", err)
		}
		if c.User != user || c.Password != password || c.Host != "db.example" || c.Port != 5433 {
			t.Fatalf("pgx reads host %s, port %d, another user or password", c.Host, c.Port)
		}
	})
}
