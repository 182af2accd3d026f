//go:build nightly

package app

import (
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// The same of all kinds.
func TestConnectionsOfStrangersOfAllKindsHoldLittleMemory(t *testing.T) {
	servertest.SkipUnderRace(t)
	a, rest := startForStrangers(t)
	for _, c := range strangersBytes()[frequentKinds:] {
		c.holdsLittle(t, a.Addr(), rest)
	}
}

// The same of connections to the proxies that operators put in front, with the files in deploy:
// what a proxy passes on, and what it keeps for itself, holds as little memory of this process.
func TestConnectionsOfStrangersToProxiesHoldLittleMemory(t *testing.T) {
	servertest.SkipUnderRace(t)
	for _, proxy := range []servertest.ReverseProxy{servertest.HAProxy, servertest.Nginx, servertest.Caddy} {
		t.Run(proxy.Config, func(t *testing.T) {
			a, rest := startForStrangers(t)
			base := servertest.Proxy(t, proxy, "../../../deploy", [2]string{a.Addr(), a.Addr()})
			for _, c := range strangersBytes() {
				c.holdsLittle(t, strings.TrimPrefix(base, "http://"), rest)
			}
		})
	}
}
