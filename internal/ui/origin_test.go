package ui

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// A page under another host than text messages name is told of once: browsers would not fill their codes in there.
func TestTextMessagesNameThePagesHost(t *testing.T) {
	for host, told := range map[string]int{
		"shop.example": 0, "shop.example:8443": 0, "codes.shop.example": 0, "127.0.0.1:8080": 0, "localhost": 0,
		"other.example": 1, "notshop.example": 1, "example": 1,
	} {
		for _, origin := range []string{"shop.example", ""} {
			var log bytes.Buffer
			u := New(Config{App: "shop", Origin: origin, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for range 3 {
				u.current().seenAt(host)
			}
			want := told
			if origin == "" {
				want = 0
			}
			if got := strings.Count(log.String(), "level=WARN"); got != want {
				t.Errorf("%s, texts name %q: %d warnings", host, origin, got)
			}
		}
	}
}
