package config

import (
	"crypto/sha256"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery/oauth/oauthtest"
)

// These values pass every check. They don't look like samples, because keys that look like samples
// are refused.
const (
	goodRing  = "k1:3X0oYb1mYB0TzJmCPjKsuo3yF5pO9zq7GxHqW7rA0vE="
	otherRing = "k2:q9Zc1n0VtTg5m2uQ0oLx8bYJmJ3kz7pWcH4sEwD6iRk="
	goodIndex = "Zk8sQ1vUuXo0G7mD2yPpRr5cJt3nWlEaHbVfKqT9xMg="
	goodKey   = "sk_Jw7sT0bQ3nVxK9rLmPzD5cYh"
	goodHash  = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$Nq0Zl3JrV2x5b0V2bXh0dWJtbG9wcXJzdHV2d3h5ejA"
	goodSMTP  = "smtp://shop:pw-of-the-relay@mail.example.net:587"
)

// reachable has settings with which the service starts on an address that others can reach. Not all
// of them are necessary for this.
var reachable = []string{
	"SENDCODE_ADDR=0.0.0.0:8080", "SENDCODE_SECRET_KEYS=" + goodRing, "SENDCODE_INDEX_KEY=" + goodIndex,
	"SENDCODE_API_KEY=" + goodKey, "SENDCODE_SMTP_URL=" + goodSMTP, "SENDCODE_ADMIN_PASSWORD_HASH=" + goodHash,
	"SENDCODE_MAIL_FROM=Shop <no-reply@shop.example>", "SENDCODE_DATABASE_URL=postgres://u:p@db/sendcode",
	"SENDCODE_REDIS_URL=redis://redis:6379/0", "SENDCODE_ADMIN_ADDR=127.0.0.1:8081",
	"SENDCODE_PUBLIC_URL=https://codes.shop.example",
}

func with(environ []string, more ...string) []string { return append(slices.Clone(environ), more...) }

func without(environ []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, name+"=") })
}

// files stands for the disk. It maps the path of a file to its content.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	content, ok := f[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

// hiddenSecret is the value of variables that settings name, and the content of /run/secret.
const hiddenSecret = "a-hidden-secret-of-others"

// loadYAML loads yaml as the file c.yaml. The settings can name the variables and the files in the
// body.
func loadYAML(yaml string, environ ...string) (Config, error) {
	return Load(with([]string{
		"SENDCODE_CONFIG=c.yaml", "SECRET=" + hiddenSecret, "SHORT=fifteen-letters",
		"KEPT_FILE=/run/secret", "LOST_FILE=/no", "BLANK_FILE=/empty", "TWICE=" + hiddenSecret,
		"TWICE_FILE=/run/secret",
	}, environ...), files{
		"c.yaml": yaml, "/run/secret": hiddenSecret + "\n", "/bad": "# a comment\nnot_a_domain\n<html>\n",
		"/google": oauthtest.Account("https://oauth2.googleapis.com/token"), "/google-http": oauthtest.Account("http://h/"),
		"/run/secrets/google.json": oauthtest.Account("https://oauth2.googleapis.com/token"), // operations.md names this path
		"/empty":                   " \n", "/comments": "# none\n", "/odd": "\ufeffone.example\n*.two.example\r\n.three.example\n@four.example\nfive.example.\n  \"six.example\",\n[\n]\n\n" +
			"xn--bei.cf\nseven.example # good\na b\n-.example\nnot_a_domain\nSEVEN.example",
		"/list": "# a list\n\nMailinator.COM  # the first of them\r\nbücher.example\n",
	}.read)
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// readBack loads a printed configuration and returns it. It fails the test if the loaded
// configuration prints differently.
func readBack(t *testing.T, c Config) Config {
	t.Helper()
	again := must(t, c.YAML())
	wantEqual(t, "printed and read", again.YAML(), c.YAML())
	return again
}

// must loads yaml, and ends the test if the file has a mistake.
func must(t *testing.T, yaml string, environ ...string) Config {
	t.Helper()
	c, err := loadYAML(yaml, environ...)
	if err != nil {
		t.Fatalf("%s\n%v", yaml, err)
	}
	return c
}

// mistakes returns the mistakes that err lists. It returns nil if err is nil.
func mistakes(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n  - ")[1:]
}

func sumOf(s string) [32]byte { return sha256.Sum256([]byte(s)) }
