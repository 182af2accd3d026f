//go:build nightly

// Only `make nightly` runs these tests, since they need three proxies. They test the files in
// deploy.

package parts

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

func TestRollingRestartsBehindOthers(t *testing.T) {
	for _, proxy := range []servertest.ReverseProxy{servertest.Nginx, servertest.Caddy} {
		t.Run(proxy.Name, func(t *testing.T) { t.Parallel(); restartBehind(t, proxy) })
	}
}

// installation is an installation of the service that shares a HAProxy with others.
type installation struct {
	*apptest.Stack
	*apptest.Process
}

// severalBehind starts a HAProxy with the file in deploy in front of two installations, with the
// lines of apps.map.
func severalBehind(t *testing.T, first, second installation, apps string) (base string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "apps.map")
	apptest.Must(t, os.WriteFile(file, []byte(apps), 0o600))
	several := servertest.HAProxy.With("/etc/haproxy/apps.map", file)
	several.Config = "haproxy-several.cfg"
	return servertest.Proxy(t, several, deploy,
		[2]string{strings.TrimPrefix(first.Base, "http://"), strings.TrimPrefix(second.Base, "http://")})
}

// Each app uses one of two installations behind one HAProxy, as docs/several-installations.md
// describes. HAProxy chooses the installation by the key or, without a key, by the host. Neither
// installation counts the events of the other.
func TestSeveralInstallations(t *testing.T) {
	const secondKey = "sk_ZYXWVUTSRQPONMLKJIHGFEDCBA9876543210"
	first, second := installation{Stack: apptest.Embedded(t)}, installation{Stack: apptest.Embedded(t)}
	second.Env["SENDCODE_API_KEY"] = secondKey
	first.Process, second.Process = first.Spawn(), second.Spawn()
	base := severalBehind(t, first, second, fmt.Sprintf("%x second\n%x first\ncodes.second.example second\n",
		sha256.Sum256([]byte(secondKey)), sha256.Sum256([]byte(apptest.APIKey))))
	post := func(key, path, body string) apptest.Answer {
		t.Helper()
		a, err := first.At(base, http.MethodPost, path, body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) })
		apptest.Must(t, err)
		return a
	}
	const ana = `{"channel":"email","to":"` + apptest.Ana + `"}`
	for _, key := range []string{apptest.APIKey, secondKey} {
		first.Is("a send of "+key[:5], post(key, "/v1/verifications", ana), http.StatusAccepted)
		first.Is("its second one", post(key, "/v1/verifications", ana), http.StatusTooManyRequests)
	}
	first.Is("a key of neither", post("sk_of_nobody_of_nobody_of_nobody_of_no", "/v1/verifications", ana), http.StatusUnauthorized)
	for host, in := range map[string]installation{
		"codes.second.example": second, "CODES.second.example:443": second,
		"other.example": first,
	} {
		before := strings.Count(in.Printed.String(), `"route":"/v1/channels"`)
		_, err := in.At(base, http.MethodGet, "/v1/channels", "", func(r *http.Request) { r.Host, r.Header = host, http.Header{} })
		apptest.Must(t, err)
		in.Await("the request to "+host, func() bool { return strings.Count(in.Printed.String(), `"route":"/v1/channels"`) > before })
	}
}

// An app moves to another installation, as docs/several-installations.md describes. During the move
// it gets no code, and a code from before is approved. Afterwards no recipient has got more than
// the policy allows. The test uses one proxy for each state of the map in place of a reload.
func TestAppMovesToAnotherInstallation(t *testing.T) {
	const window = 3 * time.Second
	from, to := installation{Stack: oneFile(t)}, installation{Stack: oneFile(t)}
	for _, in := range []*installation{&from, &to} {
		in.Policy("    - {name: window, scope: recipient, limit: 1, window: " + window.String() + "}\n")
		in.Process = in.Spawn()
	}
	base := ""
	is := func(backend string) {
		t.Helper()
		base = severalBehind(t, from, to, fmt.Sprintf("%x %s\n", sha256.Sum256([]byte(apptest.APIKey)), backend))
	}
	post := func(path, body string) apptest.Answer {
		t.Helper()
		a, err := from.At(base, http.MethodPost, path, body)
		apptest.Must(t, err)
		return a
	}
	const ana = `{"channel":"email","to":"` + apptest.Ana + `"}`
	is("first")
	before := post("/v1/verifications", ana)
	from.Is("a send", before, http.StatusAccepted)
	code := from.CodeIn(from.AwaitMail(apptest.Ana, 1)[0])
	is("moving")
	for _, path := range []string{"/v1/verifications", "/", "/v1/hooks/auth"} {
		away := post(path, ana)
		from.Is("a send while the app moves, to "+path, away, http.StatusServiceUnavailable, away.Header.Get("Retry-After") == "60")
	}
	checked := post("/v1/verifications/"+before.ID+"/check", `{"code":"`+code+`"}`)
	from.Is("a code from before", checked, http.StatusOK, checked.Valid)
	apptest.Sleep(window)
	is("second")
	to.Is("a send after the move", post("/v1/verifications", ana), http.StatusAccepted)
	to.Is("its second one", post("/v1/verifications", ana), http.StatusTooManyRequests)
	to.AwaitMail(apptest.Ana, 1)
	if n := len(from.Mails()); n != 1 {
		t.Errorf("the old installation has sent %d mails", n)
	}
}

// fakeReplica stands for a replica: the test decides its answers. Its /readyz answers 200 while the
// other routes answer with any status.
type fakeReplica struct {
	*httptest.Server
	status   atomic.Int32 // the status of its answers; 0: it does not answer
	mu       sync.Mutex
	requests map[string]int // how many requests it got, by their body or query
	release  chan struct{}  // closed at the end of the test, to release the requests that wait for an answer
}

func newFakeReplica(t *testing.T) *fakeReplica {
	f := &fakeReplica{requests: map[string]int{}, release: make(chan struct{})}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && f.status.Load() != 0 {
			return
		}
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.requests[string(body)+r.URL.RawQuery]++
		f.mu.Unlock()
		status := int(f.status.Load())
		if status == 0 {
			<-f.release
			return
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "the replica ", r.Host)
	}))
	f.status.Store(http.StatusAccepted)
	t.Cleanup(f.Close)
	t.Cleanup(func() { close(f.release) })
	return f
}

func (f *fakeReplica) count(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[id]
}

// A request may be repeated if it only reads, or if it requests a code or redeems a proof with an
// Idempotency-Key. If one replica answers such a request with 503 or not at all, the other replica
// answers it. Each replica gets the request at most once. Any other request reaches only one
// replica. If both replicas answer 503, the client gets their answer, and not an answer of the
// proxy. Caddy repeats only requests without a body, and only if a replica does not answer: it
// passes a 503 on.
func TestProxiesRepeatWhatMayBeRepeated(t *testing.T) {
	t.Parallel()
	const send, check = "/v1/verifications", "/v1/verifications/1/check"
	key := http.Header{"Idempotency-Key": {"a-key-of-its-own-for-a-request"}}
	for _, proxy := range []servertest.ReverseProxy{servertest.HAProxy, servertest.Nginx, servertest.Caddy} {
		for name, fault := range map[string]int{"unavailable": http.StatusServiceUnavailable, "frozen": 0} {
			t.Run(proxy.Name+" "+name, func(t *testing.T) {
				t.Parallel()
				var replicas [2]*fakeReplica
				var addresses [2]string
				for i := range replicas {
					replicas[i] = newFakeReplica(t)
					addresses[i] = replicas[i].Listener.Addr().String()
				}
				brief := proxy.With("12s", "2s")
				if proxy.Name != servertest.Caddy.Name { // Caddy repeats fewer requests
					brief = brief.With("8s", "1s")
				} else if fault == 0 { // Caddy may repeat a request to the same replica until /readyz has had no answer for 2 s
					brief = proxy.With("12s", "6s")
				}
				base := servertest.Proxy(t, brief, deploy, addresses)
				late := &http.Transport{ExpectContinueTimeout: time.Minute}
				ask := func(method, path, id string, header http.Header) (status int, said string) {
					t.Helper()
					body := strings.NewReader(id)
					if method == http.MethodGet {
						path, body = path+"?"+id, strings.NewReader("")
					}
					r, err := http.NewRequestWithContext(t.Context(), method, base+path, body)
					if err != nil {
						return 0, err.Error()
					}
					maps.Copy(r.Header, header)
					r.Header.Set("Expect", "100-continue") // many clients send the body after the head, so this one does, too
					a, err := late.RoundTrip(r)
					if err != nil {
						return 0, err.Error()
					}
					defer a.Body.Close()
					raw, _ := io.ReadAll(a.Body)
					return a.StatusCode, string(raw)
				}
				host := "the replica " + strings.TrimPrefix(base, "http://")
				servertest.Await(t, "both replicas", func() bool {
					ask(http.MethodGet, send, "first", nil)
					return replicas[0].count("first") > 0 && replicas[1].count("first") > 0
				})
				replicas[0].status.Store(int32(fault))
				caddy := proxy.Name == servertest.Caddy.Name
				var mu sync.Mutex
				var all sync.WaitGroup
				failed := 0
				for n := range 12 {
					for what, c := range map[string]struct {
						method, path string
						header       http.Header
						repeated     bool
					}{
						"GET": {http.MethodGet, send + "/1", nil, true}, "keyed": {http.MethodPost, send, key, true},
						"redeemed":               {http.MethodPost, "/v1/proofs/redeem", key, true},
						"without a key":          {http.MethodPost, send, nil, false},
						"key that does not hold": {http.MethodPost, check, key, false},
					} {
						if caddy {
							c.repeated = fault == 0 && c.method == http.MethodGet
						}
						all.Go(func() {
							id := fmt.Sprintf("%s-%d", strings.ReplaceAll(what, " ", "-"), n)
							status, said := ask(c.method, c.path, id, c.header)
							a, b := replicas[0].count(id), replicas[1].count(id)
							mu.Lock()
							defer mu.Unlock()
							switch {
							case a > 1 || b > 1 || c.repeated && b != 1 || !c.repeated && a+b != 1:
								t.Errorf("%s came %d and %d times, and was answered %d %q", id, a, b, status, said)
							case c.repeated && (status != http.StatusAccepted || said != host):
								t.Errorf("%s was answered %d %q", id, status, said)
							case status != http.StatusAccepted:
								failed++
							}
						})
					}
				}
				all.Wait()
				t.Logf("%d requests that are not repeated failed", failed)
				if fault == 0 {
					return
				}
				replicas[1].status.Store(http.StatusServiceUnavailable)
				for n := range 12 {
					for id, header := range map[string]http.Header{"both-keyed-": key, "both-": nil} {
						if status, said := ask(http.MethodPost, send, id+strconv.Itoa(n),
							header); status != http.StatusServiceUnavailable || said != host {
							t.Errorf("%s%d, with both replicas away, was answered %d %q", id, n, status, said)
						}
					}
				}
			})
		}
	}
}

// If a client sends garbage, or stops in the middle of a request, the proxy still uses both
// replicas: each gets some of the next requests, and none fails.
func TestProxiesLeaveNoGoodReplicaOut(t *testing.T) {
	t.Parallel()
	const head = "POST /v1/verifications HTTP/1.1\r\nHost: codes.example\r\n"
	for _, proxy := range []servertest.ReverseProxy{servertest.HAProxy, servertest.Nginx, servertest.Caddy} {
		t.Run(proxy.Name, func(t *testing.T) {
			t.Parallel()
			replicas := [2]*fakeReplica{newFakeReplica(t), newFakeReplica(t)}
			addresses := [2]string{replicas[0].Listener.Addr().String(), replicas[1].Listener.Addr().String()}
			base := servertest.Proxy(t, proxy, deploy, addresses)
			get := func(id string) (status int) {
				a, err := http.Get(base + "/v1/verifications/1?" + id)
				if err != nil {
					return 0
				}
				_ = a.Body.Close()
				return a.StatusCode
			}
			servertest.Await(t, "both replicas", func() bool {
				get("first")
				return replicas[0].count("first") > 0 && replicas[1].count("first") > 0
			})
			for name, spoiled := range map[string]string{
				"a chunk that is none":    head + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n",
				"a chunk too short":       head + "Transfer-Encoding: chunked\r\n\r\n5\r\na\r\n0\r\n\r\n",
				"an unfinished chunk":     head + "Transfer-Encoding: chunked\r\n\r\n5\r\na",
				"an unfinished body":      head + "Content-Length: 100\r\n\r\na",
				"two lengths":             head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\na",
				"a client that hangs up":  "GET /v1/verifications/1?gone HTTP/1.1\r\nHost: codes.example\r\n\r\n",
				"a head without an end":   head + "X-A: ",
				"a header that is spoilt": head + "Content-Length: 1\r\nbad header\r\n\r\na",
			} {
				for range 6 {
					conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
					apptest.Must(t, err)
					_, _ = io.WriteString(conn, spoiled)
					_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
				}
				id := strings.ReplaceAll(name, " ", "-")
				for range 10 {
					if status := get(id); status != http.StatusAccepted {
						t.Errorf("%s: then %d", name, status)
					}
				}
				if a, b := replicas[0].count(id), replicas[1].count(id); a < 3 || b < 3 {
					t.Errorf("%s: then the replicas got %d and %d of ten requests", name, a, b)
				}
			}
		})
	}
}
