package verification

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
)

func TestStrongKey(t *testing.T) {
	for key, want := range map[string]bool{
		"5f0c9a4be1d24786a35e70c81b9f2d63":         true,
		"5F0C9A4BE1D24786A35E70C81B9F2D63":         true,
		"5f0c9a4be1d24786a35e70c81b9f2d6":          false, // 124 bits
		"8e03978e-40d5-43dd-bc93-6894a57f9324":     false, // a UUID has 122
		"01939e3c-1c3a-7000-8000-0000000a17bc":     false,
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
	var weak []string // one random key in three million has no letter
	for range 10_000 {
		var b [16]byte
		_, _ = rand.Read(b[:])
		if key := hex.EncodeToString(b[:]); !strongKey(key) {
			weak = append(weak, key)
		}
	}
	if len(weak) > 2 {
		t.Errorf("%q", weak)
	}
	if !strongKey(strings.Repeat("5f0c9a4be1d24786", 4)) {
		t.Error("the page's keys have 64 digits")
	}
}
