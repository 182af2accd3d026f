package verification

import (
	"strings"
	"testing"
)

func TestStrongKey(t *testing.T) {
	for key, want := range map[string]bool{
		"5f0c9a4be1d24786a35e70c81b9f2d63":         true,
		"5F0C9A4BE1D24786A35E70C81B9F2D63":         true,
		strings.Repeat("5f0c9a4be1d24786", 4):      true,  // as the page's
		"5f0c9a4be1d24786a35e70c81b9f2d6":          false, // 124 bits
		"8e03978e-40d5-43dd-bc93-6894a57f9324":     false, // a UUID has 122
		"00000000000000000000000000000001":         false,
		"20261121042359123456789012345678":         false,
		"deadbeefdeadbeefdeadbeefdeadbeef":         false,
		"order-4711-of-ana@example.com-2026-11-21": false,
		"XIdvK0tR3mQzJ8nYc2bWfA":                   false, // base64url
		"":                                         false,
	} {
		if got := strongKey(key); got != want {
			t.Errorf("%q: %v", key, got)
		}
	}
}
