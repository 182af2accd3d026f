package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"sendcode/internal/app"
	"sendcode/internal/page/pagetest"
)

// pictures is where the README finds those of the page and the console.
const pictures = "docs/pictures"

// scene is one picture of the demonstration: the steps in a tab, and the size of the picture.
type scene struct {
	name          string
	width, height int64
	steps         []chromedp.Action[chromedp.Void]
}

// drawDemo plays the demonstration, and draws the pictures of the README of it.
func drawDemo(ctx context.Context, browser context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	banner, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		failed := app.Demo(ctx, []string{"SENDCODE_ADDR=127.0.0.1:0"}, slog.New(slog.DiscardHandler), out)
		_ = out.CloseWithError(errors.Join(io.ErrUnexpectedEOF, failed))
		ended <- failed
	}()
	base, password, err := readBanner(banner)
	if err == nil {
		err = errors.Join(drawStory(browser, strings.Replace(base, "127.0.0.1", "localhost", 1)), // with cookies of its own
			drawScenes(browser, base, password))
	}
	stop()
	return errors.Join(err, <-ended)
}

var (
	pageLine     = regexp.MustCompile(`page +(http://\S+?)/?$`)
	passwordLine = regexp.MustCompile(`password +(\S+)$`)
)

// readBanner waits until the service says where it is, and goes on reading what else it says.
func readBanner(banner io.Reader) (base, password string, err error) {
	lines := bufio.NewScanner(banner)
	for lines.Scan() {
		if found := pageLine.FindStringSubmatch(lines.Text()); found != nil {
			base = found[1]
		}
		if found := passwordLine.FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, banner) }()
			return base, found[1], nil
		}
	}
	return "", "", fmt.Errorf("the demonstration did not start: %w", lines.Err())
}

func drawScenes(browser context.Context, base, password string) error {
	tab, end := pagetest.Tab(browser)
	defer end()
	type css = chromedp.CSS
	scenes := []scene{
		{"page", 480, 640, []chromedp.Action[chromedp.Void]{
			chromedp.Navigate(base + "/"), chromedp.SetValue(css("#to"), "ana@mail.example"), chromedp.Click(css("#send")),
			chromedp.WaitVisible(css("#code")), until(`!document.querySelector("#heading").innerText.includes("On its way")`),
		}},
		{"console", 1280, 900, []chromedp.Action[chromedp.Void]{
			chromedp.Navigate(base + "/admin/login"), chromedp.SetValue(css("#password"), password),
			chromedp.Click(css("main form[action='/admin/login'] button")),
			chromedp.WaitVisible(css("main table")), chromedp.Navigate(base + "/admin/overview?last=7d"), chromedp.WaitVisible(css("main svg")),
		}},
		{"send", 1280, 800, []chromedp.Action[chromedp.Void]{
			chromedp.Navigate(base + "/admin?status=failed"), chromedp.Click(css("main a[href^='/admin/sends/']")),
			chromedp.WaitVisible(css("main h1")),
		}},
	}
	for _, s := range scenes {
		look := pagetest.Look{Width: s.width, Height: s.height, Still: true, Lang: "en"}
		if err := chromedp.Do(tab, append([]chromedp.Action[chromedp.Void]{look.Apply()}, s.steps...)...); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		shot, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(pictures, s.name+".png"), shot, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// until waits for something to hold of the page.
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
			if holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script)); err == nil && holds {
				return nil
			}
		}
	})
}
