package loopback_test

import (
	"testing"

	"sendcode/internal/base/loopback"
	"sendcode/internal/kit/servertest"
)

func TestLoopbackIsHost(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, "localhost": true,
		"LocalHost": true, "app.localhost": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "127.0.0.1.example": false,
		"localhost.example": false, "notlocalhost": false,
		"[::1]": false, "127.1": false,
	} {
		servertest.Same(t, host, loopback.IsHost(host), want)
	}
}
