package pagetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"sendcode/internal/kit/servertest"
)

// DoAndWaitForPath runs the steps in the tab and waits, at most [servertest.Patience], until a
// newly loaded page's path and query begin with prefix. It fails if a step fails or no such page is
// loaded.
func DoAndWaitForPath(tab context.Context, prefix string, steps ...chromedp.Action[chromedp.Void]) error {
	// The properties of a page's window are lost with the page.
	if _, err := chromedp.Run(tab, chromedp.Evaluate[string](`window.left = false; ""`)); err != nil {
		return err
	}
	if err := chromedp.Do(tab, steps...); err != nil {
		return err
	}
	limit := time.NewTimer(servertest.Patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		// While a page is being left there is nothing to ask.
		at, err := chromedp.Run(tab, chromedp.Evaluate[string](
			`document.readyState === "complete" && window.left === undefined ? location.pathname + location.search : ""`))
		if err == nil && strings.HasPrefix(at, prefix) {
			return nil
		}
		select {
		case <-tick.C:
		case <-tab.Done():
			return tab.Err()
		case <-limit.C:
			return fmt.Errorf("at %q and not at %s: %v", at, prefix, err)
		}
	}
}

// Eval runs a script in the tab's page and returns its result.
func Eval(tab context.Context, script string) (string, error) {
	return chromedp.Run(tab, chromedp.Evaluate[string](script))
}
