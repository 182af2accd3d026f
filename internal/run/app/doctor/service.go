package doctor

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
)

// checkService asks the running service about its last requests. They show faults that the doctor's
// own checks miss, such as a carrier that accepts the login but no message. It is no failure if the
// service does not run.
func (d *doctor) checkService(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.cfg.Addr+"/readyz", nil)
	if err != nil {
		return
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		if line == "ok" {
			d.pass("service", "it is ready")
			continue
		}
		how, said, _ := strings.Cut(line, ": ")
		word, _, _ := strings.Cut(said, ":")
		if slices.Contains(whileItWorks, word) {
			d.remark("service", line)
		} else if how == "degraded" || how == "unavailable" {
			d.fail("service", line)
		}
	}
}

// whileItWorks are the words of /readyz while the service works, or while it is set to send
// nothing.
var whileItWorks = []string{"database_slow", "clock_off", "suppressions_held", "held"}
