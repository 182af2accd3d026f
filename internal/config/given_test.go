package config

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"sendcode/internal/config/document"
)

// Values that pass every check. They are no sample: keys that look like samples are refused.
const (
	goodRing  = "k1:3X0oYb1mYB0TzJmCPjKsuo3yF5pO9zq7GxHqW7rA0vE="
	otherRing = "k2:q9Zc1n0VtTg5m2uQ0oLx8bYJmJ3kz7pWcH4sEwD6iRk="
	goodIndex = "Zk8sQ1vUuXo0G7mD2yPpRr5cJt3nWlEaHbVfKqT9xMg="
	goodKey   = "sk_Jw7sT0bQ3nVxK9rLmPzD5cYh"
	goodHash  = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$Nq0Zl3JrV2x5b0V2bXh0dWJtbG9wcXJzdHV2d3h5ejA"
	goodSMTP  = "smtp://shop:pw-of-the-relay@mail.example.net:587"
)

// reachable is what an address that others can reach asks for.
var reachable = []string{
	"SENDCODE_ADDR=0.0.0.0:8080", "SENDCODE_SECRET_KEYS=" + goodRing, "SENDCODE_INDEX_KEY=" + goodIndex,
	"SENDCODE_API_KEY=" + goodKey, "SENDCODE_SMTP_URL=" + goodSMTP, "SENDCODE_ADMIN_PASSWORD_HASH=" + goodHash,
	"SENDCODE_MAIL_FROM=Shop <no-reply@shop.example>", "SENDCODE_DATABASE_URL=postgres://u:p@db/sendcode",
	"SENDCODE_REDIS_URL=redis://redis:6379/0", "SENDCODE_ADMIN_ADDR=127.0.0.1:8081",
}

// with replaces or adds variables.
func with(environ []string, more ...string) []string { return append(slices.Clone(environ), more...) }

// without drops a variable.
func without(environ []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, name+"=") })
}

// files stands for the disk.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	content, ok := f[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

// loadYAML loads one file, c.yaml, below an environment.
func loadYAML(yaml string, environ ...string) (Config, error) {
	return Load(with(environ, "SENDCODE_CONFIG=c.yaml"), files{"c.yaml": yaml}.read)
}

// mistakes gives the list as lines, nil if there are none.
func mistakes(err error) []string {
	var all *document.Errors
	if !errors.As(err, &all) {
		return nil
	}
	var lines []string
	for _, m := range all.Mistakes {
		lines = append(lines, m.Where+": "+m.Text)
	}
	return lines
}

func sumOf(s string) [32]byte { return sha256.Sum256([]byte(s)) }
