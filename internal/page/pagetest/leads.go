package pagetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is far more than one page takes.
const patience = time.Minute

// Leads does something in a tab and waits for the page that comes of it, whose path with its query begins so.
func Leads(tab context.Context, to string, steps ...chromedp.Action[chromedp.Void]) error {
	// What stands in a page's window is gone with the page.
	if _, err := chromedp.Run(tab, chromedp.Evaluate[string](`window.left = false; ""`)); err != nil {
		return err
	}
	if err := chromedp.Do(tab, steps...); err != nil {
		return err
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		// While a page is being left there is nothing to ask.
		at, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.readyState === "complete" && window.left === undefined ? location.pathname + location.search : ""`))
		if err == nil && strings.HasPrefix(at, to) {
			return nil
		}
		select {
		case <-tick.C:
		case <-tab.Done():
			return tab.Err()
		case <-limit.C:
			return fmt.Errorf("at %q and not at %s: %v", at, to, err)
		}
	}
}

// Eval asks a page.
func Eval(tab context.Context, script string) (string, error) {
	return chromedp.Run(tab, chromedp.Evaluate[string](script))
}
