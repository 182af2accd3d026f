package config

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// pgx reads each accepted URL with the intended meaning. The parser of pgx has other rules for the
// end of a password than ours.
func TestPostgresReadsTheSameURL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		user, password := rapid.StringN(1, 12, -1).Draw(t, "user"), rapid.StringN(1, 12, -1).Draw(t, "password")
		u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: "db.example:5433", Path: "/d"}
		if checkDatabaseURL(u.String()) != "" {
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

func TestClusterURL(t *testing.T) {
	for node, cluster := range map[string]string{
		"redis://h":                                "redis+cluster://h",
		"rediss://user:hidden@h:6380/2":            "rediss+cluster://user:***@h:6380",
		"redis://:hidden@h?db=2&dial_timeout=2s":   "redis+cluster://:***@h?dial_timeout=2s",
		"rediss://u:hidden@h/?password=hidden&x=y": "rediss+cluster://u:***@h?password=***&x=***",
	} {
		if got := ClusterURL(node); got != cluster {
			t.Errorf("%s: %s", node, got)
		}
	}
}
