package ui_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/ui/uitest"
)

// example gives the blocks of a language of docs/widget.md.
func example(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/widget.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, found := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(found[1]))
	}
	if len(blocks) == 0 {
		t.Fatalf("the documentation shows no %s", language)
	}
	return blocks
}

// aWidgetByItsDocumentation goes the whole way over the program itself: the snippet and the policy are the
// documentation's, on a page of another origin, and a double click is one mail.
func aWidgetByItsDocumentation(t *testing.T, browser context.Context) {
	var policy, markup string
	site := uitest.NewSite(func() (string, string, string) { return policy, "", markup })
	t.Cleanup(site.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "sendcode.yaml")
	yaml := fmt.Sprintf("apps:\n  - {name: shop, origins: [%q], keys: [{id: web, kind: public, sha256: %x}]}\n", site.Origin(), sha256.Sum256([]byte(uitest.PublicKey)))
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	base, _ := service(t, filepath.Join(dir, "data"), "SENDCODE_CONFIG="+file)
	real := strings.NewReplacer("https://codes.example", base, "pk_your_public_key", uitest.PublicKey)
	_, policy, _ = strings.Cut(strings.TrimSpace(real.Replace(example(t, "http")[0])), ": ")
	markup = real.Replace(example(t, "html")[0])

	b := open(t, browser, running(t), uitest.Look{})
	b.tolerate = "favicon" // the documented policy allows a site no picture
	b.root = `document.querySelector('send-code').shadowRoot`
	b.first(listening + `; addEventListener('approved', (e) => { window.proof = e.detail.proof })`)
	b.do(chromedp.Navigate(site.URL))
	b.card("ask", "Get a code")
	b.focus("to")
	b.keys(uitest.Address)
	from := time.Now()
	b.doubleClick("#send")
	b.keys(kb.Enter)
	b.card("code", "Check your mail", "Code sent to a•••@example.com", "Send again in", "4 left", "9 left")
	b.counts(from)
	if n := eval[int](b, b.root+`.querySelectorAll('.pips-row').length`); n != 3 { // those of the network are nobody's own
		t.Errorf("%d rules are shown", n)
	}
	code := codeIn(t, base)
	b.do(chromedp.Reload())
	b.card("code", "Code sent to a•••@example.com", "Send again in 0:", "4 left")
	b.focus("code")
	b.paste(code[:3] + " " + code[3:])
	b.card("approved", "a•••@example.com is yours")
	claims := eval[string](b, `atob(proof.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))`)
	if !strings.Contains(claims, `"shop"`) || !strings.Contains(claims, `"purpose":"default"`) {
		t.Errorf("the proof says %s", claims)
	}
	answer, err := http.Get(base + "/mailbox/messages")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var mails []struct{ To string }
	if err := json.NewDecoder(answer.Body).Decode(&mails); err != nil || len(mails) != 1 {
		t.Errorf("%d mails, %v", len(mails), err)
	}
}
