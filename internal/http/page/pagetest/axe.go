package pagetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/chromedp"

	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// Axe finds barriers to accessibility in a page with axe-core, in the browser of a test.
//
// Chromium contains axe-core for its own audits of pages, in the scripts of its developer tools,
// which any tab can load. So the tests need no download of axe-core, and this repository needs no
// copy of it. A browser without axe-core fails the test.
type Axe struct{ source string }

// axeBundle is the address of the script, within Chromium's developer tools, that contains the
// source of axe-core as a string.
const axeBundle = "devtools://devtools/bundled/third_party/lighthouse/lighthouse-dt-bundle.js"

// axeOpening is the beginning of axe-core's source.
const axeOpening = "/*! axe v"

// LoadAxe reads axe-core from a Chromium, which it starts and ends. It does so once for each
// version of the program: a file in [servertest.CacheDir] keeps axe-core. program is the path of
// a Chromium with developer tools, which the headless shell lacks.
func LoadAxe(ctx context.Context, program string) (*Axe, error) {
	cache, err := servertest.CacheDir()
	if err != nil {
		return nil, err
	}
	about, err := os.Stat(program)
	if err != nil {
		return nil, err
	}
	of := fmt.Sprint(program, about.Size(), about.ModTime().UnixNano())
	kept := filepath.Join(cache, fmt.Sprintf("axe-%x.js", sha256.Sum256([]byte(of))))
	if source, err := os.ReadFile(kept); err == nil {
		return &Axe{string(source)}, nil
	}
	source, err := axeOf(ctx, program)
	if err != nil {
		return nil, fmt.Errorf("axe: %w", err)
	}
	written := fmt.Sprint(kept, ".", os.Getpid()) // another process may write the file at the same time
	if err := errors.Join(os.WriteFile(written, []byte(source), 0o600),
		os.Rename(written, kept)); err != nil {
		return nil, err
	}
	return &Axe{source}, nil
}

// axeOf starts the Chromium at the path program and returns axe-core's source from axeBundle.
func axeOf(ctx context.Context, program string) (string, error) {
	tab, end := browsertest.StartChromium(ctx, program)
	defer end()
	if err := chromedp.Do(tab, chromedp.Navigate(axeBundle)); err != nil {
		return "", fmt.Errorf("the browser shows no %s: %w", axeBundle, err)
	}
	script, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.body.textContent`))
	if err != nil {
		return "", err
	}
	text, err := quotedSource(script)
	if err != nil {
		return "", err
	}
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		return "", err
	}
	return chromedp.Run(tab, chromedp.Evaluate[string](text))
}

var errNoAxe = errors.New("the browser brings no axe-core")

// quotedSource returns the string literal, with its quotes, that contains axe-core within a script.
func quotedSource(script string) (string, error) {
	at := strings.Index(script, axeOpening)
	if at < 1 || !strings.ContainsRune("`'\"", rune(script[at-1])) {
		return "", errNoAxe
	}
	quote := script[at-1]
	for i := at; i < len(script); i++ {
		switch script[i] {
		case '\\':
			i++
		case quote:
			return script[at-1 : i+1], nil
		}
	}
	return "", errNoAxe
}

// axeRules are the tags of axe-core's rules for WCAG 2.2 A and AA and for best practice.
const axeRules = `{runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], rules: {"target-size": {enabled: true}}, resultTypes: ["violations"]}`

// Violations describes the problems with the part of a tab's page that a selector names, one line
// each: the rule, the place and what is wrong there.
func (a *Axe) Violations(tab *browsertest.Tab, part string) (found []string, err error) {
	var version string
	load := `globalThis.axe?.version ?? (() => {` + a.source + `; return axe.version })()`
	if err := tab.Eval(load, &version); err != nil {
		return nil, fmt.Errorf("axe: the engine cannot be loaded: %w", err)
	}
	run := fmt.Sprintf(`axe.run(%q, %s).then((found) => found.violations.flatMap((v) => v.nodes.map((n) =>
		v.id + ": " + n.target.join(" ") + ": " + n.html.slice(0, 120) + ": " + (n.any[0] ?? n.all[0] ?? n.none[0])?.message)))`, part,
		axeRules)
	return found, tab.Eval(run, &found)
}
