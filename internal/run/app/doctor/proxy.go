package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"sendcode/internal/base/loopback"
)

// ProxyURLProblem checks a URL to which the admin token will be sent, and describes the problem. It
// returns "" for an https URL, and for an http URL on this machine.
func ProxyURLProblem(text string) string { return loopback.URLProblem(text) }

const forwardedFor = "X-Forwarded-For"

// checkProxy sends a request to the service through the service's proxy, and the service answers
// with the client address that it sees. checkProxy sends the admin token only to the configured
// URL, and follows no redirect.
func (d *doctor) checkProxy(ctx context.Context) (string, error) {
	if !d.cfg.AdminToken.IsSet() {
		return "", errors.New("SENDCODE_ADMIN_TOKEN is not set: the service shows the address only with this token")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(d.cfg.BehindURL, "/")+"/v1/admin/client", nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+d.cfg.AdminToken.Reveal())
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var reply struct {
		Address, Peer netip.Addr
		Header        string
	}
	if json.NewDecoder(resp.Body).Decode(&reply) != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %d to GET /v1/admin/client: the URL must lead to the service, and the token must be its SENDCODE_ADMIN_TOKEN", r.URL.Host, resp.StatusCode)
	}
	trusted := slices.ContainsFunc(d.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(reply.Peer) })
	switch {
	case reply.Header == forwardedFor && !trusted:
		return "", fmt.Errorf("all clients count as %s, which is not in SENDCODE_TRUSTED_PROXIES", reply.Peer)
	case reply.Header != forwardedFor && (reply.Header != "" || trusted):
		return "", fmt.Errorf("all clients count as %s, which sends no X-Forwarded-For; a header that it sends: %s", reply.Peer,
			cmp.Or(reply.Header, "none"))
	}
	return fmt.Sprintf("a request through %s arrives from %s; this must be the address at which others see this machine",
		r.URL.Host, reply.Address), nil
}
