package config

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// What is accepted, pgx reads as it was meant: it has a parser of its own, with other ideas of
// where a password ends.
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
