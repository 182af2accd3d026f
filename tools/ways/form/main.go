// Command form tests a page that has <send-code> in a form. In a browser it types the address,
// reads the code in the service's mailbox, types the code, presses the form's button, and checks
// that the form posts a proof. Its arguments are the URLs of the page and the service, the secret
// key, and the person's address.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := signIn(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "form:", err)
		cancel()
		os.Exit(1)
	}
}

// field returns a JavaScript expression for a field of the widget, in its shadow tree.
func field(selector string) string {
	return "document.querySelector('send-code')?.shadowRoot?.querySelector('" + selector + "')"
}

// signIn fails if the form would post no proof.
func signIn(ctx context.Context, page, service, key, to string) error {
	ctx, cancel := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()

	if err := chromedp.Do(ctx, chromedp.Navigate(page)); err != nil {
		return err
	}
	const address, code = "input[type=email]", "input.code"
	if err := typeInto(ctx, address, to+"\r"); err != nil {
		return err
	}
	newestCode, err := waitForCode(ctx, service, key, to)
	if err != nil {
		return err
	}
	if err := typeInto(ctx, code, newestCode); err != nil {
		return err
	}
	// The page's server accepts no forms, so the test ends before the request.
	const proof = `document.querySelector('send-code').value`
	if err := until(ctx, proof); err != nil {
		return err
	}
	posted, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(() => {
		let posted = '';
		const form = document.querySelector('form');
		form.addEventListener('submit', (event) => { event.preventDefault(); posted = form.method + ' ' + new URLSearchParams(new FormData(form)); });
		form.querySelector('button').click();
		return posted;
	})()`))
	fmt.Println(posted[:min(len(posted), 40)])
	if err == nil && !strings.HasPrefix(posted, "post proof=ey") {
		err = errors.New("the form posts no proof")
	}
	return err
}

// typeInto waits for a field of the widget, and types into it.
func typeInto(ctx context.Context, selector, text string) error {
	if err := until(ctx, field(selector)); err != nil {
		return err
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](field(selector)+".focus() ?? true")); err != nil {
		return err
	}
	return chromedp.Do(ctx, chromedp.KeyEvent(text))
}

// until waits until an expression is true in the page.
func until(ctx context.Context, expression string) error {
	return repeat(ctx, func() (bool, error) {
		return chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
	})
}

// repeat calls try until it returns true or an error.
func repeat(ctx context.Context, try func() (bool, error)) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if done, err := try(); done || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitForCode waits for a mail to the address, and returns its code.
func waitForCode(ctx context.Context, service, key, to string) (code string, err error) {
	err = repeat(ctx, func() (bool, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, service+"/mailbox/messages", nil)
		if err != nil {
			return false, err
		}
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false, err
		}
		defer func() { _ = answer.Body.Close() }()
		var mails []struct{ To, Code string }
		if err := json.NewDecoder(answer.Body).Decode(&mails); err != nil {
			return false, fmt.Errorf("the mailbox answers %s: %w", answer.Status, err)
		}
		for _, m := range mails { // the newest is first
			if m.To == to {
				code = m.Code
				break
			}
		}
		return code != "", nil
	})
	return code, err
}
