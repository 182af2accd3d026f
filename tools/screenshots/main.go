// Command screenshots draws the README's pictures of the page and the console into docs/pictures.
// They show the week that make demo simulates. It needs a Chromium and no back end. Tests that
// check the page's cards and the console's pages keep pictures of these.
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
