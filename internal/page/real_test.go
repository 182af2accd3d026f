package page_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/app"
	"sendcode/internal/config"
	"sendcode/internal/page/pagetest"
)

// service runs the whole program as it starts with nothing, and gives its address and a way to stop it.
func service(t *testing.T, dir string, environ ...string) (base string, stop func()) {
	t.Helper()
	cfg, err := config.Load(append(environ, "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR="+dir), os.ReadFile)
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
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return "http://" + a.Addr(), stop
}

// theRealThing goes the whole way over the program itself, with its mailbox, log and quota, and through a restart.
func theRealThing(t *testing.T, browser context.Context) {
	dir := filepath.Join(t.TempDir(), "data")
	base, stop := service(t, dir)
	b := open(t, browser, running(t), pagetest.Look{})
	b.do(chromedp.Navigate(base + "/"))
	b.card("ask", "6-digit code")
	b.focus("to")
	from := time.Now()
	b.keys(pagetest.Address + kb.Enter)
	b.card("code", "Check your mail", "Code sent to a•••@example.com", "Send again in", "4 left", "9 left")
	b.counts(from)
	code := codeIn(t, base)

	stop()
	base, _ = service(t, dir)
	b.do(chromedp.Navigate(base + "/"))
	b.card("code", "Send again in 0:", "4 left") // the log knows, and the cookie opens
	b.believe()
	b.click("#again")
	b.until(`document.querySelector('#again:not(.busy)[aria-disabled=true]')`)
	b.counts(from)
	b.focus("code")
	b.keys(code[:3] + " " + code[3:] + kb.Enter)
	b.card("approved", "a•••@example.com is confirmed.")
	b.nothingKept()
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

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
	return sixDigits.FindString(mailsAt(t, base)[0].Text)
}
