//go:build nightly

// Only `make nightly` runs these tests, since they need frameworks from npm and pip.

package clients

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

const maxSample = 21 // lines of a back end in a framework

// samples are the back ends of docs/examples and docs/quickstart.md, by framework. A sample has its
// files, a program around them that listens at PORT, and the commands that install and run both.
var samples = map[string]struct {
	files  []string // files of docs/examples, copied beside driver; the first one is the sample
	driver [2]string
	fetch  []string
	run    func(testing.TB) []string
	proof  bool // the back end takes a proof of the widget; the others ask for a code and keep its ID in the session
}{
	"express": {
		files: []string{"express.mjs", "back.mjs"},
		fetch: []string{
			"npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
			"express@5.3.0", "express-session@1.19.0",
		},
		run: func(t testing.TB) []string { return []string{servertest.Node(t), "express.mjs"} },
	},
	"next": {files: []string{"next.js"}, driver: [2]string{"server.mjs", `import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
const { POST } = await import('data:text/javascript,' + encodeURIComponent(await readFile('next.js', 'utf8')));
createServer(async (request, response) => {
  const { method, headers } = request;
  if (method !== 'POST') return response.end();
  const answer = await POST(new Request('http://shop' + request.url, { method, headers, body: request, duplex: 'half' }));
  response.writeHead(answer.status).end(await answer.text());
}).listen(process.env.PORT);
`}, run: func(t testing.TB) []string { return []string{servertest.Node(t), "server.mjs"} }, proof: true},
	"django": {files: []string{"django_views.py", "back.py"}, driver: [2]string{"serve.py", `import os, wsgiref.simple_server
from django.conf import settings
settings.configure(SECRET_KEY="of a test", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
                   MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"])
from django.core.wsgi import get_wsgi_application
from django.urls import path
import django_views
urlpatterns = [path("code", django_views.ask), path("code/check", django_views.enter)]
wsgiref.simple_server.make_server("127.0.0.1", int(os.environ["PORT"]), get_wsgi_application()).serve_forever()
`}, run: func(t testing.TB) []string { return []string{servertest.Django(t), "serve.py"} }},
	"go": {driver: [2]string{"main.go", `{}
func main() {
	http.HandleFunc("POST /sign-in", signIn)
	panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
`}, fetch: []string{"go", "build", "-o", "shop", "main.go"}, run: func(testing.TB) []string { return []string{"./shop"} }, proof: true},
}

// Each sample welcomes a person under the address to which the code went, even if the form names
// another one. It welcomes nobody without the code.
func TestSamplesOfFrameworks(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(twoAnHour + "purposes: {newsletter: {}}\n").Start(1)
	t.Cleanup(func() { // after all samples
		if s.Logged("sends for strangers without client_ip") {
			t.Error("a sample does not name the person's address")
		}
	})
	for name, sample := range samples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := sample.run(t)
			dir := t.TempDir()
			for i, file := range sample.files {
				text := readFile(t, "docs/examples/"+file)
				if n := strings.Count(text, "\n"); i == 0 && n > maxSample {
					t.Errorf("%s has %d lines", file, n)
				}
				apptest.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			if driver := sample.driver; driver[0] != "" {
				page := blocksOf(t, "docs/quickstart.md", "go") // the last block is the handler of a form
				text := strings.Replace(driver[1], "{}", goWithoutMain(t)+"\n"+page[len(page)-1], 1)
				apptest.Must(t, os.WriteFile(filepath.Join(dir, driver[0]), []byte(text), 0o600))
			}
			if sample.fetch != nil {
				fetch := exec.CommandContext(t.Context(), sample.fetch[0], sample.fetch[1:]...)
				fetch.Dir, fetch.Env = dir, append(os.Environ(), "GOWORK=off")
				if said, err := fetch.CombinedOutput(); err != nil && os.Getenv("CI") == "" && sample.fetch[0] == "npm" {
					t.Skipf("%v: %v: %s", sample.fetch, err, said)
				} else if err != nil {
					t.Fatalf("%v: %v: %s", sample.fetch, err, said)
				}
			}
			p := newShopper(t, s, "ana."+name+"@example.com")
			p.starts(dir, program)
			if sample.proof {
				p.signsInByProof()
				newShopper(t, s, "later."+p.to).redeemsDespiteImpostor(dir, program)
			} else {
				p.signsInByCode()
				newShopper(t, s, "later."+p.to).triesLater(dir, program)
			}
		})
	}
}

// shopper is a person who uses a shop, whose back end runs on this machine.
type shopper struct {
	*testing.T
	http.Client
	s        *apptest.Stack
	port     int
	shop, to string // the address of the shop, and of the person
}

func newShopper(t *testing.T, s *apptest.Stack, to string) *shopper {
	t.Helper()
	p := &shopper{T: t, s: s, port: servertest.FreePort(t), to: to}
	p.shop = fmt.Sprintf("http://127.0.0.1:%d", p.port)
	p.Jar, _ = cookiejar.New(nil) // without options, New never fails
	p.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return p
}

// starts starts the shop's back end in a folder, with further variables, and waits until it
// listens.
func (sh *shopper) starts(dir string, command []string, more ...string) {
	sh.Helper()
	c := exec.CommandContext(sh.Context(), command[0], command[1:]...)
	c.Dir, c.Stdout, c.Stderr = dir, sh.s.Printed, sh.s.Printed
	c.Env = append(append(os.Environ(), "CODES_URL="+sh.s.Replicas[0].Base, "CODES_KEY="+sh.s.Key, "SHOP_URL="+sh.shop,
		fmt.Sprint("PORT=", sh.port), "SESSION_SECRET=a secret of this test, and long enough"), more...)
	apptest.Must(sh.T, c.Start())
	sh.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	sh.s.Await("the back end of "+sh.to, func() bool {
		answer, err := sh.Get(sh.shop)
		if err == nil {
			answer.Body.Close()
		}
		return err == nil
	})
}

// ask sends a request, and returns the answer with the text of its body.
func (sh *shopper) ask(method, path, kind, body string) (answer *http.Response, text string) {
	sh.Helper()
	r, err := http.NewRequest(method, sh.shop+path, strings.NewReader(body))
	apptest.Must(sh.T, err)
	r.Header.Set("Origin", sh.shop)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	answer, err = sh.Do(r)
	apptest.Must(sh.T, err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	apptest.Must(sh.T, err)
	return answer, string(raw)
}

func (sh *shopper) post(path string, form url.Values) (status int, body string) {
	sh.Helper()
	answer, body := sh.ask(http.MethodPost, path, "application/x-www-form-urlencoded", form.Encode())
	return answer.StatusCode, body
}

func (sh *shopper) signsInByCode() {
	sh.Helper()
	enter := func(code string) (int, string) {
		return sh.post("/code/check", url.Values{"code": {code}, "to": {"eve@example.com"}})
	}
	if status, body := enter("123456"); status != http.StatusNotFound {
		sh.Errorf("nothing was asked: %d %s", status, body)
	}
	sh.saysWhatIsWrong("/code", `{"to":"ana@example.com"}`)
	ask := func(to string) {
		sh.Helper()
		status, body := sh.post("/code", url.Values{"to": {to}})
		if status != http.StatusAccepted || strings.Contains(body, `"id"`) || strings.Contains(body, `"rules"`) { // these are only for secret keys
			sh.Fatalf("%s: %d %s", to, status, body)
		}
	}
	ask("mistyped." + sh.to)
	typed := "Ana <" + sh.to + ">"
	ask(typed)
	ask(typed)
	if status, body := sh.post("/code", url.Values{"to": {typed}}); status != http.StatusTooManyRequests ||
		!strings.Contains(body, `"retry_after"`) {
		sh.Errorf("too early: %d %s", status, body)
	}
	mails := sh.s.AwaitMail(sh.to, 2)
	sh.saysWhatIsWrong("/code/check", `{"code":"123456"}`)
	code := sh.s.CodeIn(mails[0])
	if again := sh.s.CodeIn(mails[1]); again != code {
		sh.Errorf("sent again: %s, not %s", again, code)
	}
	wrong := sh.s.Wrong(code)
	for _, try := range [][2]string{{wrong, "200 {"}, {code, "200 Welcome, " + sh.to + "\n"}, {wrong, "404 {"}, {code, "404 {"}} {
		if said := fmt.Sprintln(enter(try[0])); !strings.HasPrefix(said, try[1]) {
			sh.Errorf("the code %s: %s, not %s", try[0], said, try[1])
		}
	}
}

// saysWhatIsWrong posts what a page may post by mistake: JSON, a form without the field, and an
// empty body. The back end answers that the request is wrong, and continues to run.
func (sh *shopper) saysWhatIsWrong(path, json string) {
	sh.Helper()
	for kind, body := range map[string]string{
		"application/json": json, "application/x-www-form-urlencoded": "other=1", "": "",
	} {
		if answer, said := sh.ask(http.MethodPost, path, kind, body); answer.StatusCode < 400 || answer.StatusCode > 499 {
			sh.Errorf("%s, %q, posted as %q: %d %s", path, body, kind, answer.StatusCode, said)
		}
	}
}

// impostor passes requests to the service. While it has a reply, it answers in the service's place,
// as do a firewall, a proxy, a captive portal, and another service under the same name.
type impostor struct {
	*httptest.Server
	reply atomic.Pointer[reply]
}

type reply struct {
	path  string // only requests to this path get the reply; "": all do
	write func(http.ResponseWriter)
}

func newImpostor(t *testing.T, s *apptest.Stack) *impostor {
	t.Helper()
	service, err := url.Parse(s.Replicas[0].Base)
	apptest.Must(t, err)
	passed, i := httputil.NewSingleHostReverseProxy(service), &impostor{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch reply := i.reply.Load(); {
		case r.URL.Path == "/portal":
			_, _ = io.WriteString(w, "<!doctype html><title>Log in to this network</title>")
		case reply != nil && (reply.path == "" || reply.path == r.URL.Path):
			reply.write(w)
		default:
			passed.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

// tryEachAnswer calls try once for each answer of another program. Meanwhile the impostor answers
// requests to the path so, or all requests if path is "". The program of a back end must accept
// none of these answers, and continue to run.
func (i *impostor) tryEachAnswer(path string, try func(what string)) {
	answer := func(what string, write func(http.ResponseWriter)) {
		i.reply.Store(&reply{path, write})
		try(what)
	}
	for _, status := range []int{200, 201, 202, 204, 400, 401, 403, 404, 409, 422, 429, 500, 502, 503} {
		for _, body := range []string{
			"", "{}", "null", "[]", "0", `"blocked"`, `[{"id":"verification-1"}]`, "\x00\xff",
			"<!doctype html><title>Blocked</title>",
			`{"message":"blocked"}`, `{"error":"blocked","request_id":"r"}`, `{"type":"about:blank","status":403,"request_id":"r"}`,
			`{"type":{"a":1},"to":["eve@example.com"]}`, `{"type":"https://shop.example/problems/not-found","title":"Not Found"}`,
			`{"id":"verification-1","status":"expired","send":true,"channels":[null]}`, `{"to":"eve@example.com","proof":"a.b.c"}`,
		} {
			answer(fmt.Sprint(status, " ", body), func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
		}
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		answer(fmt.Sprint("a redirect, ", status), func(w http.ResponseWriter) {
			w.Header().Set("Location", "/portal")
			w.WriteHeader(status)
		})
	}
	for _, half := range []string{"", `{"channel":"email","purpose":"default","to":"ana@exam`, "<!doctype html>"} {
		answer("half an answer: "+half, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "500")
			_, _ = io.WriteString(w, half)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
	}
	i.reply.Store(nil)
}

// triesLater tries each stage of a sign-in by code while another program answers in the service's
// place. The person reads that it can't be done right now, and gets in later with the same code and
// the same proof.
func (sh *shopper) triesLater(dir string, command []string) {
	sh.Helper()
	other := newImpostor(sh.T, sh.s)
	sh.starts(dir, command, "CODES_URL="+other.URL)
	fails := func(path string, form url.Values, asked string) {
		sh.Helper()
		other.tryEachAnswer(asked, func(what string) {
			sh.Helper()
			if got, said := sh.post(path, form); got != http.StatusServiceUnavailable || strings.Contains(said, "Welcome") {
				sh.Errorf("%s, another program answers %s: %d %s", path, what, got, said)
			}
		})
	}
	to := url.Values{"to": {sh.to}}
	fails("/code", to, "")
	if status, body := sh.post("/code", to); status != http.StatusAccepted {
		sh.Fatalf("a code later: %d %s", status, body)
	}
	code := url.Values{"code": {sh.s.CodeIn(sh.s.AwaitMail(sh.to, 1)[0])}}
	fails("/code/check", code, "")
	fails("/code/check", code, "/v1/proofs/redeem")
	if status, body := sh.post("/code/check", code); body != "Welcome, "+sh.to {
		sh.Errorf("the same code later: %d %s", status, body)
	}
}

// redeemsDespiteImpostor redeems a proof while another program answers in the service's place.
// Nothing is known about the proof then, so the person may try it again.
func (sh *shopper) redeemsDespiteImpostor(dir string, command []string) {
	sh.Helper()
	other := newImpostor(sh.T, sh.s)
	sh.starts(dir, command, "CODES_URL="+other.URL)
	sent := sh.s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"client_ip":"198.18.0.7"}`, sh.to))
	proof := url.Values{"proof": {sh.s.Check(0, sent.ID, sh.s.CodeIn(sh.s.AwaitMail(sh.to, 1)[0])).Proof}}
	other.tryEachAnswer("", func(what string) {
		sh.Helper()
		if got, said := sh.post("/sign-in", proof); got != http.StatusServiceUnavailable || strings.Contains(said, "Welcome") {
			sh.Errorf("another program answers %s: %d %s", what, got, said)
		}
	})
	if status, body := sh.post("/sign-in", proof); body != "Welcome, "+sh.to {
		sh.Errorf("the same proof later: %d %s", status, body)
	}
}

func (sh *shopper) signsInByProof() {
	sh.Helper()
	s := sh.s
	sent := s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"client_ip":"198.18.0.7"}`, sh.to))
	checked := s.Check(0, sent.ID, s.CodeIn(s.AwaitMail(sh.to, 1)[0]))
	signIn := func(proof string) (int, string) {
		return sh.post("/sign-in", url.Values{"proof": {proof}, "to": {"eve@example.com"}})
	}
	sh.saysWhatIsWrong("/sign-in", `{"proof":"a.b.c"}`)
	if status, body := signIn("a.b.c"); status != http.StatusForbidden {
		sh.Errorf("a forged proof: %d %s", status, body)
	}
	reader := "reader." + sh.to
	sent = s.Post("/v1/verifications",
		fmt.Sprintf(`{"channel":"email","purpose":"newsletter","to":%q,"client_ip":"198.18.0.7"}`, reader))
	newsletter := s.Check(0, sent.ID, s.CodeIn(s.AwaitMail(reader, 1)[0]))
	if status, body := signIn(newsletter.Proof); newsletter.Proof == "" || status != http.StatusForbidden {
		sh.Errorf("a proof of another purpose: %d %s", status, body)
	}
	if status, body := signIn(checked.Proof); status != http.StatusOK || body != "Welcome, "+sh.to {
		sh.Errorf("the proof: %d %s", status, body)
	}
	if status, body := signIn(checked.Proof); status != http.StatusForbidden {
		sh.Errorf("the proof again: %d %s", status, body)
	}
}
