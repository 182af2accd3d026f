package commands_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
)

// PostBounce returns an error after any answer but 204. It drops a mail that is too large, without
// an error. The address and the secret come from the flags or from the settings.
func TestPostBounce(t *testing.T) {
	var got []string
	status := http.StatusNoContent
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mail, _ := io.ReadAll(r.Body)
		got = append(got, r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Authorization")+" "+string(mail))
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer s.Close()
	cfg, err := config.Load([]string{
		"BOUNCES=a secret of bounces", "SENDCODE_DATA_DIR=" + t.TempDir(), "SENDCODE_ADDR=" + s.Listener.Addr().String(),
		"SENDCODE_CONFIG_YAML=provider_events: [{name: pipe, scheme: dsn, secret_env: BOUNCES}]",
	}, os.ReadFile)
	apptest.Must(t, err)
	file := filepath.Join(t.TempDir(), "secret")
	apptest.Must(t, os.WriteFile(file, []byte("another secret\n"), 0o600))
	known := func() (config.Config, error) { return cfg, nil }
	mistake := func() (config.Config, error) { return config.Config{}, errors.New("a mistake") }
	none := func() (config.Config, error) { return config.Config{}, nil }
	flags := commands.BounceTarget{URL: s.URL + "/v1/events/x", SecretFile: file}
	for name, c := range map[string]struct {
		target   commands.BounceTarget
		settings func() (config.Config, error)
		mail     string
		status   int
		want     string // what arrives; "": nothing
		fails    bool
	}{
		"settings": {
			commands.BounceTarget{},
			known, "a\n\nb", 204,
			"/v1/events/pipe message/rfc822 Bearer a secret of bounces a\n\nb", false,
		},
		"flags":           {flags, mistake, "a", 204, "/v1/events/x message/rfc822 Bearer another secret a", false},
		"database away":   {flags, nil, "a", 503, "/v1/events/x message/rfc822 Bearer another secret a", true},
		"another service": {flags, nil, "a", 200, "/v1/events/x message/rfc822 Bearer another secret a", true},
		"redirected":      {flags, nil, "a", 307, "/v1/events/x message/rfc822 Bearer another secret a", true},
		"too large":       {flags, nil, strings.Repeat("a", 1<<20+1), 204, "", false},
		"nobody there":    {commands.BounceTarget{URL: "http://127.0.0.1:1/", SecretFile: file}, nil, "a", 204, "", true},
		"no such file":    {commands.BounceTarget{URL: s.URL, SecretFile: file + "s"}, nil, "a", 204, "", true},
		"no settings":     {commands.BounceTarget{URL: s.URL}, mistake, "a", 204, "", true},
		"no source":       {commands.BounceTarget{URL: s.URL}, none, "a", 204, "", true},
	} {
		got, status = nil, c.status
		err := commands.PostBounce(t.Context(), c.target, c.settings, strings.NewReader(c.mail), io.Discard)
		if (err != nil) != c.fails || strings.Join(got, "|") != c.want {
			t.Errorf("%s: %v, %.100q arrived", name, err, got)
		}
	}
}
