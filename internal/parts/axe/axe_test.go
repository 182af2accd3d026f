package axe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sendcode/internal/parts"
)

const page = `<!doctype html><html lang="en"><head><title>A page</title></head><body><main><h1>Heading</h1>%</main></body></html>`

// Each of these is found, and the page without them is clean: also where scripts of the page's own may not be evaluated.
func TestEngine(t *testing.T) {
	content := ""
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(content))
	}))
	defer site.Close()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(parts.Chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	tab, cancel := chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(tab); err != nil {
		t.Fatal(err)
	}
	e, err := Load(tab)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(e.Version, "4.") {
		t.Errorf("version %q", e.Version)
	}
	for wrong, rule := range map[string]string{
		"": "", `<button></button>`: "button-name", `<input>`: "label", `<p style="color:#999;background:#fff">faint</p>`: "color-contrast",
		`<img src="x">`: "image-alt", `<h4>Too deep</h4>`: "heading-order", `<p id="x">a</p><p aria-labelledby="y" role="img">b</p>`: "role-img-alt",
		`<button style="width:10px;height:10px;padding:0">a</button><button style="width:10px;height:10px;padding:0">b</button>`: "target-size",
	} {
		content = strings.Replace(page, "%", wrong, 1)
		if err := chromedp.Do(tab, chromedp.Navigate(site.URL)); err != nil {
			t.Fatal(err)
		}
		found, err := e.Violations(tab, "html")
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(found, "\n")
		if rule == "" && all != "" || !strings.Contains(all, rule) {
			t.Errorf("of %s it finds %q, not %s", wrong, all, rule)
		}
	}
	content = strings.Replace(strings.Replace(page, ` lang="en"`, "", 1), "%", "", 1)
	if err := chromedp.Do(tab, chromedp.Navigate(site.URL)); err != nil {
		t.Fatal(err)
	}
	if found, err := e.Violations(tab, "html"); err != nil || !strings.HasPrefix(strings.Join(found, "\n"), "html-has-lang: ") {
		t.Errorf("%q, %v", found, err)
	}
}

func TestLiteral(t *testing.T) {
	for script, want := range map[string]string{
		"a=`/*! axe v4 \\` x`;b=`c`": "`/*! axe v4 \\` x`", `a="/*! axe v4\"\\";b="c"`: `"/*! axe v4\"\\"`,
		"a=/*! axe v4 */": "", "": "", "/*! axe v4": "", "`/*! axe v4": "", "`/*! axe v4\\": "",
	} {
		if got, err := literal(script); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", script, got, err)
		}
	}
}
