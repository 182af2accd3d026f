package doctor

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"sendcode/internal/base/loopback"
)

// checkService asks the running service for its readiness. This depends on how the service's latest
// requests to other systems ended, so it shows faults that the doctor's own checks miss, such as a
// carrier that accepts the login but no message. If the service does not run, checkService prints
// nothing.
func (d *doctor) checkService(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, body, _ := AskReadiness(ctx, cmp.Or(d.cfg.AdminAddr, d.cfg.Addr), d.cfg.AdminToken.Reveal())
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "ok" {
			d.pass("service", "it is ready")
			continue
		}
		state, rest, _ := strings.Cut(line, ": ")
		word, _, _ := strings.Cut(rest, ":")
		if slices.Contains(whileItWorks, word) || line == "degraded" { // degraded, but working: a remark
			d.remark("service", line)
		} else if state == "degraded" || state == "unavailable" {
			d.fail("service", line)
		}
	}
}

// AskReadiness returns the status and body of /readyz of the service at a host and port. The admin
// token is sent only to this machine. With a token the body has the reasons, even if the service is
// behind a proxy.
func AskReadiness(ctx context.Context, addr, token string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	if host := r.URL.Hostname(); token != "" && (host == "" || loopback.IsHost(host) || host == "0.0.0.0" || host == "::") {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Host = "localhost" // with this Host, programs of this machine get the reasons, even if the service listens at all addresses
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	return answer.StatusCode, string(text), err
}

// whileItWorks are the reasons in /readyz that are only a remark: the service works, or is set to
// send nothing.
var whileItWorks = []string{"database_slow", "clock_off", "suppressions_held", "held"}
