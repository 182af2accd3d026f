//go:build nightly

// Only `make nightly` runs these tests: npm installs hundreds of packages for each framework.

package page_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
)

// rendering has the frameworks that render on a server. Each has an application in
// testdata/rendered, around a sample of docs/examples. There is no lock file, since it would have
// thousands of lines. package.json has the exact versions of the application's direct dependencies.
var rendering = map[string]struct {
	sample, at   string // at is the place of the sample in the application
	build, serve string // shell commands; npm's programs are in their path
}{
	"angular": {
		"sign-in.ts", "sign-in.ts",
		"ngc && esbuild main.js --bundle --outfile=out/browser.js && esbuild server.js --bundle --platform=node --outfile=out/server.cjs",
		"node out/server.cjs",
	},
	"astro":     {"SignIn.astro", "src/SignIn.astro", "astro build", "astro preview --host 127.0.0.1 --port $PORT"},
	"next":      {"SignIn.jsx", "app/SignIn.jsx", "next build", "next start --hostname 127.0.0.1 --port $PORT"},
	"nuxt":      {"SignIn.vue", "app/SignIn.vue", "nuxt build", "env HOST=127.0.0.1 node .output/server/index.mjs"},
	"sveltekit": {"SignIn.svelte", "src/SignIn.svelte", "vite build", "vite preview --host 127.0.0.1 --port $PORT"},
}

// A page that a framework's server rendered contains the widget with its attributes. In the
// browser, the framework takes over the same element without a warning, and the application gets
// the events.
func TestServersOfFrameworks(t *testing.T) {
	browser, _ := chromium(t)
	for name, framework := range rendering { // not in parallel, because each needs much memory
		t.Run(name, func(t *testing.T) {
			source := "testdata/rendered/" + name
			modules := servertest.NodeModules(t, source)
			dir, err := os.MkdirTemp(filepath.Dir(modules), "application-") // below the modules, since programs look for them in the folders above
			servertest.OK(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			b, w := inAShop(t, browser)
			servertest.OK(t, os.CopyFS(dir, os.DirFS(source)))
			write(t, dir, framework.at, read(t, "../../../docs/examples/"+framework.sample))
			own := strings.NewReplacer("pk_your_public_key", pagetest.PublicKey, "https://codes.example/", w.URL)
			servertest.OK(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				return os.WriteFile(path, []byte(own.Replace(read(t, path))), 0o600)
			}))
			port := fmt.Sprint(servertest.FreePort(t))
			npm := func(command string) *exec.Cmd {
				c := exec.CommandContext(t.Context(), "sh", "-c", command)
				c.Dir, c.Stdout, c.Stderr = dir, t.Output(), t.Output()
				c.Env = append(os.Environ(), "PATH="+filepath.Join(modules, ".bin")+":"+os.Getenv("PATH"), "PORT="+port,
					"CI=1", "ASTRO_TELEMETRY_DISABLED=1", "NEXT_TELEMETRY_DISABLED=1", "NUXT_TELEMETRY_DISABLED=1")
				return c
			}
			servertest.OK(t, npm(framework.build).Run())
			server := npm("exec " + framework.serve)
			servertest.OK(t, server.Start())
			t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
			site := "http://127.0.0.1:" + port
			w.Allow(site)
			var page []byte
			b.await("the server of "+name, func() bool {
				answer, err := http.Get(site)
				if err != nil {
					return false
				}
				defer answer.Body.Close()
				page, err = io.ReadAll(answer.Body)
				return err == nil && answer.StatusCode == http.StatusOK
			})
			contains(t, string(regexp.MustCompile(`<send-code[^>]*>`).Find(page)),
				`public-key="`+pagetest.PublicKey+`"`, `purpose="default"`, `name="proof"`, ` required`)
			b.first(`new MutationObserver(() => { window.rendered ??= document.querySelector('send-code'); }).observe(document, { childList: true, subtree: true })`)
			b.do(chromedp.Navigate(site))
			if name == "astro" { // its router loads the page a second time
				b.until(`window.change && document.querySelector('a[href="/shop"]')`)
				b.run(`document.querySelector('a[href="/shop"]').click()`)
				b.until(`document.querySelector('a[href="/"]')`)
				b.run(`rendered = undefined`, `document.querySelector('a[href="/"]').click()`)
				b.until(`document.querySelector('send-code')`)
			}
			aWidgetInAFramework(b, w)
			is(t, eval[bool](b, `rendered === document.querySelector('send-code')`), true)
		})
	}
}
