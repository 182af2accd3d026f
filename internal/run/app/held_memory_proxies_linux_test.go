//go:build nightly

package app

import (
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// manyConns is how many connections of each kind these tests open.
const manyConns = 1000

// TestConnectionsOfStrangersHoldLittleMemory opens connections of some kinds. This test opens
// connections of all kinds.
func TestConnectionsOfStrangersOfAllKindsHoldLittleMemory(t *testing.T) {
	servertest.SkipUnderRace(t)
	a, rest := startForStrangers(t)
	for _, c := range strangersBytes() {
		c.holdsLittle(t, a.Addr(), rest, manyConns)
	}
}

// Connections of strangers to the proxies in deploy also hold at most a tenth of a MiB of this
// process each, whether or not the proxy passes them on.
func TestConnectionsOfStrangersToProxiesHoldLittleMemory(t *testing.T) {
	servertest.SkipUnderRace(t)
	for _, proxy := range []servertest.ReverseProxy{servertest.HAProxy, servertest.Nginx, servertest.Caddy} {
		t.Run(proxy.Config, func(t *testing.T) {
			a, rest := startForStrangers(t)
			base := servertest.Proxy(t, proxy, "../../../deploy", [2]string{a.Addr(), a.Addr()})
			for _, c := range strangersBytes() {
				c.text = strings.ReplaceAll(c.text, "Host: x", "Host: 127.0.0.1") // Caddy passes no other host on
				c.holdsLittle(t, strings.TrimPrefix(base, "http://"), rest, manyConns)
			}
		})
	}
}
