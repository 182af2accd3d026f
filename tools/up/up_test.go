package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/smtp"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"sendcode/internal/config"
	"sendcode/internal/parts"
)

// childVariable makes the test binary play the program that is served.
const childVariable = "SENDCODE_TEST_UP_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		playChild()
	}
	os.Exit(m.Run())
}

// playChild tells of every signal, and ends with the second one.
func playChild() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	fmt.Println("ready", strings.Join(os.Args[1:], " "))
	fmt.Println((<-signals).String())
	fmt.Println((<-signals).String())
	os.Exit(7)
}

// street starts all parts, or skips where there are none.
func testStreet(t *testing.T) *street {
	t.Helper()
	parts.Redis(t)
	parts.Postgres(t)
	s, err := open(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	return s
}

func TestStreetIsReachableAsTheProgramIsTold(t *testing.T) {
	s := testStreet(t)
	cfg, err := config.Load(append(s.env(), make(seed, seedSize).secrets().env()...), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(cfg.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	if got, err := client.ConfigGet(t.Context(), "appendonly").Result(); err != nil || got["appendonly"] != "yes" {
		t.Errorf("redis: appendonly %v, %v", got, err)
	}
	conn, err := pgx.Connect(t.Context(), cfg.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	mail := "Subject: Your code\r\nTo: ana@example.com\r\n\r\nThe text\r\n"
	addr := strings.TrimPrefix(cfg.SMTPURL, "smtp://")
	if err := smtp.SendMail(addr, nil, "from@example.com", []string{"ana@example.com"}, []byte(mail)); err != nil {
		t.Fatal(err)
	}
	page := get(t, s.readerAt)
	for _, want := range []string{"To: ana@example.com", "Subject: Your code", "The text"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of mails lacks %q:\n%s", want, page)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestSeedStaysAndSecretsDiffer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seed")
	first, err := loadSeed(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := loadSeed(path)
	if err != nil || !slices.Equal(first, again) {
		t.Errorf("the seed changed: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	s := first.secrets()
	if _, ring, _ := strings.Cut(s.ring, ":"); ring == s.index {
		t.Error("one key for two purposes")
	}
	other, err := loadSeed(filepath.Join(t.TempDir(), "seed"))
	if err != nil || other.secrets() == s {
		t.Errorf("two checkouts have the same secrets, %v", err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSeed(path); err == nil {
		t.Error("a damaged seed is taken")
	}
}
