//go:build nightly

// Only make nightly runs these tests: they build the service and start its servers.

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

// What up starts is ready on all its parts, a mail can be read, and the secrets stay for the next
// run.
func TestUp(t *testing.T) {
	servertest.Redis(t) // these skip where there is none
	servertest.Postgres(t)
	dir, out := t.TempDir(), &servertest.Text{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- up(ctx, dir, "127.0.0.1:0", []string{"SENDCODE_ADDR=127.0.0.1:0"}, out) }()
	base := regexp.MustCompile(`page +(http://\S+)/`)
	for base.FindStringSubmatch(out.String()) == nil {
		select {
		case err := <-ended:
			t.Fatalf("%v: %s", err, out)
		case <-time.After(20 * time.Millisecond):
		}
	}
	secrets, err := loadSecrets(dir)
	if err != nil || !strings.Contains(out.String(), secrets) {
		t.Errorf("other secrets: %v", err)
	}
	mails := regexp.MustCompile(`mails +(\S+)`).FindStringSubmatch(out.String())[1]
	for url, want := range map[string]string{base.FindStringSubmatch(out.String())[1] + "/readyz": "", mails: "<html"} {
		jar, err := cookiejar.New(nil)
		servertest.OK(t, err)
		answer, err := (&http.Client{Jar: jar}).Get(url) // the mails' link sets a cookie
		servertest.OK(t, err)
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s %v", url, answer.StatusCode, body, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
