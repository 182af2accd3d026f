// Command screenshots draws the pictures of the README, into docs/pictures: the page and the
// console, of the week that make demo plays. It needs a Chromium and no back end. Pictures of every
// card and of the console's pages are kept by the tests that look at them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/chromedp/chromedp"

	"sendcode/internal/kit/browsertest"
	"sendcode/tools/ensure/locate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	program, err := locate.HeadlessShell.Find()
	if err != nil {
		return err
	}
	browser, end := browsertest.StartChromium(ctx, program)
	defer end()
	if err := chromedp.Do(browser); err != nil {
		return err
	}
	return drawDemo(ctx, browser)
}
