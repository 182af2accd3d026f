package operators

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sendcode/internal/app/apptest"
)

// asked is a carrier on loopback that remembers where it was asked to tell what became of a message.
type asked struct {
	*httptest.Server
	mu   sync.Mutex
	last string
}

func (c *asked) callback() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Receipts are taken from who has the address of that very send, and never bring a send back.
func TestReceipts(t *testing.T) {
	t.Parallel()
	c := &asked{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last = r.FormValue("cb")
	}))
	t.Cleanup(c.Close)
	s := configured(apptest.Embedded(t), `sms:
  countries: [DE]
  public_url: https://codes.example.com
  carriers: [{name: rest, type: http, url: "`+c.URL+`/", format: form, body: "to={to}&text={text}&cb={callback}", receipt: {status: st, delivered: [ok], undelivered: [lost]}}]
`).Start(1)
	callbacks := map[string]string{}
	ids := []string{}
	for n := range 2 {
		a := text(s, 0, fmt.Sprintf("+4915123456%03d", n))
		s.Await("the send", func() bool { return s.Do(0, "GET", "/v1/verifications/"+a.ID, "").Send.Status == "sent" })
		callbacks[a.ID], ids = strings.TrimPrefix(c.callback(), "https://codes.example.com"), append(ids, a.ID)
	}
	tell := func(path string, want int) {
		t.Helper()
		if got := s.Do(0, http.MethodGet, path, ""); got.StatusCode != want {
			t.Errorf("%d, want %d: %s", got.StatusCode, want, got.Raw)
		}
	}
	is := func(id, want string) {
		t.Helper()
		if got := s.Do(0, http.MethodGet, "/v1/verifications/"+id, "").Send.Status; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	first, second := callbacks[ids[0]], callbacks[ids[1]]
	if !strings.HasPrefix(first, "/v1/receipts/rest?send=") || first == second {
		t.Fatalf("%q", first)
	}
	adminToken := apptest.Token
	tokenOf := func(path string) string { return path[strings.Index(path, "&token="):] }
	for name, forged := range map[string]string{
		"another's token": strings.Replace(first, tokenOf(first), tokenOf(second), 1), "no token": strings.Replace(first, tokenOf(first), "", 1),
		"another carrier": strings.Replace(first, "/rest?", "/kannel?", 1), "no send": "/v1/receipts/rest?st=ok" + tokenOf(first), "nothing": "/v1/receipts/rest",
	} {
		if got := s.Do(0, http.MethodGet, forged+"&st=ok", ""); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", name, got.StatusCode)
		}
	}
	is(ids[0], "sent")
	tell(first+"&st=queued", http.StatusNoContent)
	tell(first, http.StatusBadRequest)
	is(ids[0], "sent")
	tell(first+"&st=lost", http.StatusNoContent)
	is(ids[0], "undelivered")
	if again := text(s, 0, "+4915123456000"); again.StatusCode != http.StatusTooManyRequests {
		t.Errorf("an undelivered message was refunded: %d", again.StatusCode)
	}
	tell(first+"&st=ok", http.StatusNoContent)
	tell(first+"&st=ok", http.StatusNoContent)
	tell(first+"&st=lost", http.StatusNoContent)
	is(ids[0], "delivered")
	is(ids[1], "sent")
	list := s.Do(0, http.MethodGet, "/v1/admin/sends?status=delivered", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+adminToken) })
	if !strings.Contains(string(list.Raw), `"status":"delivered"`) {
		t.Errorf("%d %s", list.StatusCode, list.Raw)
	}
	if strings.Contains(s.Printed.String(), tokenOf(first)[7:]) {
		t.Error("the token was logged")
	}
}
