package apptest

import (
	"fmt"
	"net/url"
	"strings"

	"sendcode/internal/kit/servertest"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Through starts a proxy in front of a part. It changes the setting that names the part, so that
// the service connects through the proxy.
func (s *Stack) Through(setting string) *toxiproxy.Proxy {
	s.Helper()
	at, err := url.Parse(s.Env[setting])
	Must(s.T, err)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	// The port stays free for the proxy, which a test may stop and start again.
	proxy := toxiproxy.NewProxy(server, setting, fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(s)), at.Host)
	Must(s.T, proxy.Start())
	s.Cleanup(proxy.Stop)
	s.Env[setting] = strings.Replace(s.Env[setting], at.Host, proxy.Listen, 1)
	return proxy
}
