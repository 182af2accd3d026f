package page_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"testing"

	"sendcode/internal/app"
	"sendcode/internal/config"
)

// service runs the whole program as it starts with nothing, and gives its address.
func service(t *testing.T, environ ...string) (base string) {
	t.Helper()
	cfg, err := config.Load(append(environ, "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR="+t.TempDir()), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + a.Addr()
}

// mailsAt are the mails that the program has sent, newest first.
func mailsAt(t *testing.T, base string) (mails []struct{ To, Text string }) {
	t.Helper()
	answer, err := http.Get(base + "/mailbox/messages")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&mails); err != nil {
		t.Fatal(err)
	}
	return mails
}

// codeIn waits for the mail, and reads the code from it.
func codeIn(t *testing.T, base string) string {
	t.Helper()
	if !awaitFor(patience, func() bool { return len(mailsAt(t, base)) > 0 }) {
		t.Fatal("no mail came")
	}
	return regexp.MustCompile(`\b\d{6}\b`).FindString(mailsAt(t, base)[0].Text)
}
