package parts

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestKannelTakesAMessage(t *testing.T) {
	k := Kannel(t)
	query := url.Values{"username": {KannelUser}, "password": {KannelPassword}, "from": {"Shop"}, "to": {"+4915123456789"}, "text": {"hello"}}
	resp, err := http.Get(k.URL() + "?" + query.Encode())
	if err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
	for deadline := time.After(time.Minute); ; {
		if got := k.Received(); len(got) == 1 && strings.Contains(got[0], "Shop +4915123456789 text hello") {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%q", k.Received())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
