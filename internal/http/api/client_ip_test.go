package api

import (
	"testing"

	"sendcode/internal/verify/verification"
)

// setClientIP accepts an address with or without a port, as in X-Forwarded-For. It refuses a zone,
// a name and a list.
func TestSetClientIP(t *testing.T) {
	for given, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "192.0.2.7:51234": "192.0.2.7", "2001:db8::1": "2001:db8::1",
		"[2001:db8::1]": "2001:db8::1", "[2001:db8::1]:443": "2001:db8::1", "::ffff:192.0.2.7": "192.0.2.7",
		"fe80::1%eth0": "", "192.0.2": "", "example.com": "", "192.0.2.7, 192.0.2.8": "",
	} {
		who := verification.Caller{Kind: verification.BackEnd}
		err := setClientIP(&who, given)
		if (err == nil) != (want != "") || err == nil && who.IP.String() != want {
			t.Errorf("%s: %v, %v", given, who.IP, err)
		}
	}
}
