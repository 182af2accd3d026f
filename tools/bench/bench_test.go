package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sendcode/internal/servertest/locate"
	"sendcode/tools/bench/report"
)

// TestMain lets the test's own program be the service, as the bench's is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run, ok := commands[os.Args[1]]; ok {
			exit(run(os.Args[2:]))
			return
		}
	}
	os.Exit(m.Run())
}

// skipWithout skips where a server is not installed, or there is no disk.
func skipWithout(t *testing.T, err error) {
	t.Helper()
	var missing *locate.Missing
	if (errors.As(err, &missing) || errors.Is(err, errNoDisk)) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A short run of everything but the limiter, which is a benchmark of its own. It says nothing about speed.
func TestBench(t *testing.T) {
	file := filepath.Join(t.TempDir(), "PERFORMANCE.md")
	if err := os.WriteFile(file, []byte("# Performance\n\n## With millions of rows\n\nkept\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := bench(t.Context(), plan{rounds: 1, length: 200 * time.Millisecond, callers: []int{2}, attackers: 2, level: time.Second,
		profile: true, write: file}, &out, io.Discard)
	skipWithout(t, err)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, want := range append([]string{"with fsync on", "## With millions of rows\n\nkept\n", "0 honest requests were refused"},
		report.Contenders...) {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if missing := report.Missing(text); len(missing) > 1 || len(missing) == 1 && missing[0] != "The limiter alone" {
		t.Errorf("sections are missing: %q", missing)
	}
}

// The floors answer and send as many bytes as the service: none of them wins by saying less.
func TestFloorsSayAsMuchAsTheService(t *testing.T) {
	b, err := openRig(t.Context(), io.Discard)
	skipWithout(t, err)
	defer func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := b.startAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var answer, mail int
	for _, c := range b.contenders {
		x := caller{base: c.base}
		defer x.close()
		if err := b.mails.keep(); err != nil {
			t.Fatal(err)
		}
		n := b.recipients.Add(1) - 1
		if err := x.mustSend(recipient(n)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		said := len(x.head) + len(x.body)
		if c.name == report.Ours {
			answer = said
		}
		if said != answer {
			t.Errorf("%s answers with %d bytes, the service with %d:\n%s%s", c.name, said, answer, x.head, x.body)
		}
		if c.name == report.Bare {
			continue
		}
		texts, err := b.mails.texts(n, n+1)
		if err != nil {
			t.Fatal(err)
		}
		if c.name == report.Ours {
			mail = len(texts[0])
		}
		if len(texts[0]) != mail {
			t.Errorf("%s sends a mail of %d bytes, the service of %d:\n%s", c.name, len(texts[0]), mail, texts[0])
		}
		if code, err := codeIn(texts[0]); err != nil || len(code) != 6 {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.name == report.Fair { // at most once in a minute
			if status, err := x.send(recipient(n)); err != nil || status != 429 {
				t.Errorf("a second send: %d %v", status, err)
			}
		}
	}
}

// What the fair floor does, beside HTTP and the bytes that it copies, stays a program that one reads in ten minutes.
func TestFairFloorIsSmall(t *testing.T) {
	lines := 0
	for _, file := range []string{"fair.go", "sharing.go", "mailer.go"} {
		raw, err := os.ReadFile("../floor/" + file)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(raw), "\n")
	}
	if lines > 300 {
		t.Errorf("%d lines, want at most 300", lines)
	}
}
