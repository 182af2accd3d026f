//go:build nightly

// Only `make nightly` runs these tests, since they need HAProxy and nginx, and make thousands of
// requests.

package clients

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// HAProxy and nginx run without settings of ours, so they add no header about themselves. Behind
// them, nothing is open to a client that sends a loopback address as its Host.
func TestProxiesByTheirDefaults(t *testing.T) {
	s := apptest.Embedded(t)
	delete(s.Env, "SENDCODE_METRICS_TOKEN")
	delete(s.Env, "SENDCODE_API_KEY")
	s.Start(1)
	replica := strings.TrimPrefix(s.Replicas[0].Base, "http://")
	dir := t.TempDir()
	for _, p := range []struct {
		servertest.ReverseProxy
		config string
	}{
		{servertest.HAProxy, `defaults
    mode http
    timeout connect 5s
    timeout client 50s
    timeout server 50s
frontend codes
    bind :443 ssl crt /etc/haproxy/codes.pem
    default_backend sendcode
backend sendcode
    server a 10.0.0.11:8080
    server b 10.0.0.12:8080
`}, {servertest.Nginx, `events {}
http {
    upstream sendcode {
        server 10.0.0.11:8080;
        server 10.0.0.12:8080;
    }
    server {
        listen 443 ssl;
        ssl_certificate     /etc/nginx/codes.pem;
        ssl_certificate_key /etc/nginx/codes.key;
        location / {
            proxy_pass http://sendcode;
        }
        location /by-address/ {
            proxy_pass http://10.0.0.11:8080/;
        }
    }
}
`},
	} {
		apptest.Must(t, os.WriteFile(filepath.Join(dir, p.Config), []byte(p.config), 0o600))
		base := servertest.Proxy(t, p.ReverseProxy, dir, [2]string{replica, replica})
		for _, host := range []string{"127.0.0.1", "localhost", replica, "codes.example"} {
			for _, prefix := range []string{"", "/by-address"} {
				if prefix != "" && p.Name != servertest.Nginx.Name {
					continue
				}
				for _, path := range []string{"/metrics", "/mailbox", "/mailbox/messages", "/v1/channels"} {
					a, err := s.At(base, http.MethodGet, prefix+path, "", with("Authorization", ""),
						func(r *http.Request) { r.Host = host })
					apptest.Must(t, err)
					if a.StatusCode != http.StatusUnauthorized && a.StatusCode != http.StatusForbidden {
						t.Errorf("%s, Host %s: %s%s is answered %d %.60s", p.Name, host, prefix, path, a.StatusCode, a.Raw)
					}
				}
			}
		}
	}
}

// The time of an answer reveals no secret: whether a code was sent to a recipient before, or
// whether the ID that an app asks for belongs to another app. Of many pairs of requests, made one
// after the other, the medians are alike.
func TestResponseTimesRevealNoSecret(t *testing.T) {
	const pairs = 2000
	s := apptest.Embedded(t).Tenants().Start(1)
	others := s.Ask(0, apptest.Ana, apptest.As(apptest.AnotherKey))
	s.Is("another app's send", others, http.StatusAccepted)
	compare := func(what string, status int, ask func(n int, second bool) apptest.Answer) {
		t.Helper()
		took := [2][]time.Duration{}
		for n := range pairs {
			for i := range 2 {
				which := (i + n) % 2 // each of the two comes first in half of the pairs
				began := time.Now()
				a := ask(n, which == 1)
				took[which] = append(took[which], time.Since(began))
				s.Is(what, a, status)
			}
		}
		var medians [2]time.Duration
		for i, all := range took {
			slices.Sort(all)
			medians[i] = all[len(all)/2]
		}
		if apart := (medians[0] - medians[1]).Abs(); apart > min(medians[0], medians[1])/5+100*time.Microsecond {
			t.Errorf("%s: medians of %v", what, medians)
		}
		t.Logf("%s: medians of %v", what, medians)
	}
	// The sends are for known people, because strangers without a client_ip share 1,000 sends an
	// hour.
	send := func(to string) apptest.Answer {
		return s.Do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en","trust":"known"}`, to))
	}
	for n := range 500 {
		s.Is("a first send", send(fmt.Sprintf("true%d@example.com", n)), http.StatusAccepted)
	}
	compare("a send to a new or a known recipient", http.StatusAccepted, func(n int, known bool) apptest.Answer {
		if known {
			n %= 500
		}
		return send(fmt.Sprintf("%t%d@example.com", known, n))
	})
	unknown := []byte(others.ID)
	for i, c := range unknown[2:] { // the changed ID has the same length and form
		if c >= '0' && c <= '8' {
			unknown[2+i] = c + 1
		}
	}
	compare("a check of another app's ID or of nobody's", http.StatusNotFound, func(_ int, nobodys bool) apptest.Answer {
		if nobodys {
			return s.Check(0, string(unknown), "123456")
		}
		return s.Check(0, others.ID, "123456")
	})
}
