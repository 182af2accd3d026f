package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/chromedp/chromedp"

	"sendcode/internal/kit/browsertest"
	"sendcode/tools/demo/week"
)

// pictures is the folder with the README's pictures of the page and the console.
const pictures = "docs/pictures"

// scene is one picture of the demonstration: its size, and the steps in a tab that lead to it. The
// README shows the page and the console side by side, so their pictures have the same height.
type scene struct {
	name          string
	width, height int64
	steps         []chromedp.Action[chromedp.Void]
}

// captureDemo runs the demonstration and takes the README's screenshots of it.
func captureDemo(ctx context.Context, browser context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	banner, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		failed := week.Serve(ctx, []string{"SENDCODE_ADDR=127.0.0.1:0"}, slog.New(slog.DiscardHandler), out)
		_ = out.CloseWithError(errors.Join(io.ErrUnexpectedEOF, failed))
		ended <- failed
	}()
	base, password, err := readBanner(banner)
	if err == nil {
		err = captureScenes(browser, base, password)
	}
	stop()
	return errors.Join(err, <-ended)
}

var wholeBanner = regexp.MustCompile(`(?s)page +(http://\S+?)/?\n.*password +(\S+)\n`)

// readBanner waits until the service prints its address and password. It discards what the service
// prints later, because without a reader the service would wait.
func readBanner(banner io.Reader) (base, password string, err error) {
	output, lines := "", bufio.NewScanner(banner)
	for lines.Scan() {
		output += lines.Text() + "\n"
		if found := wholeBanner.FindStringSubmatch(output); found != nil {
			go func() { _, _ = io.Copy(io.Discard, banner) }()
			return found[1], found[2], nil
		}
	}
	return "", "", fmt.Errorf("the demonstration did not start: %w", lines.Err())
}

func captureScenes(browser context.Context, base, password string) error {
	tab, end := browsertest.ChromiumTab(browser)
	defer end()
	switch shows, err := chromedp.Run(tab, chromedp.Evaluate[bool](showsChinese)); {
	case err != nil:
		return err
	case !shows:
		return errors.New("the browser has no font for Chinese, so the console's link to Chinese would be two " +
			"boxes: install one, such as fonts-wqy-microhei of Debian")
	}
	type css = chromedp.CSS
	scenes := []scene{
		{"page", 480, 480, []chromedp.Action[chromedp.Void]{
			chromedp.Navigate(base + "/"), focus("#to"), chromedp.KeyEvent("ana@mail.example\r"),
			until(in("#code") + ` && !` + in("#heading") + `.innerText.includes("On its way")`),
		}},
		{"console", 760, 480, []chromedp.Action[chromedp.Void]{
			chromedp.Navigate(base + "/admin/login"), chromedp.SetValue(css("#password"), password),
			chromedp.Click(css("main form[action='/admin/login'] button")), chromedp.WaitVisible(css("main table")),
			until(openFailed), chromedp.WaitVisible(css("#reply")),
		}},
		{"send", 1280, 800, []chromedp.Action[chromedp.Void]{
			chromedp.Navigate(base + "/admin?status=failed"), chromedp.WaitVisible(css("main table")),
			until(openFailed), chromedp.WaitVisible(css("#reply")),
		}},
	}
	for _, s := range scenes {
		look := browsertest.Look{Width: s.width, Height: s.height, Lang: "en"}
		if err := chromedp.Do(tab, append([]chromedp.Action[chromedp.Void]{look.Apply()}, s.steps...)...); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		picture, err := capture(tab)
		if err != nil {
			return err
		}
		var file bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, picture); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(pictures, s.name+".png"), file.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// showsChinese is true if the browser draws two Chinese characters differently. Without a font,
// each of them is the same empty box.
const showsChinese = `(() => {
	const drawn = text => {
		const context = document.createElement("canvas").getContext("2d");
		context.font = "32px sans-serif";
		context.fillText(text, 0, 32);
		return context.canvas.toDataURL();
	};
	return drawn("中") !== drawn("文");
})()`

// openFailed opens the first failed send in the list that has a reply in English, the README's
// language.
const openFailed = `[...document.querySelectorAll("main tbody tr")].find(row => {
	if (!row.innerText.includes("✕")) return false;
	const page = new XMLHttpRequest();
	page.open("GET", row.querySelector("a").href, false);
	page.send();
	return page.responseText.includes('id="reply" lang="en"');
})?.querySelector("a").click() ?? true`

func capture(tab context.Context) (image.Image, error) {
	shot, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
	if err != nil {
		return nil, err
	}
	return png.Decode(bytes.NewReader(shot))
}

// in returns a JavaScript expression for an element of the page's widget, or for nothing as long as
// the element does not exist.
func in(selector string) string {
	return fmt.Sprintf(`document.querySelector("send-code")?.shadowRoot?.querySelector(%q)`, selector)
}

// focus waits for an element of the widget, and moves the focus to it.
func focus(selector string) chromedp.Action[chromedp.Void] {
	return until(`(e => { e?.focus(); return e && e.getRootNode().activeElement === e })(` + in(selector) + `)`)
}

// until waits until a JavaScript expression is true in the page. One that fails counts as false.
func until(script string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-look.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			if holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+script+")")); err == nil && holds {
				return nil
			}
		}
	})
}
