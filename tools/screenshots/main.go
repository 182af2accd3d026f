// Command screenshots takes the README's pictures of the page and the console, and writes them to
// docs/pictures. They show the week that make demo simulates. The command serves this week itself,
// and needs only a Chromium. `make screenshots` also runs the tests that take pictures of other
// pages.
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
	return captureDemo(ctx, browser)
}
