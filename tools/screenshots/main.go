// Command screenshots draws every state of the page and of the widget, at three widths, light and
// dark, in English, Chinese and Arabic, into ./screenshots: to be looked at by people. It needs a
// Chromium and no back end.
//
//	go run ./tools/screenshots            all of them
//	go run ./tools/screenshots code       those whose name begins with "code"
//	go run ./tools/screenshots demo       those of the README, of the week that make demo plays, into docs/pictures
//	go run ./tools/screenshots story      the moving one of the README, also there
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/chromedp/chromedp"
	"golang.org/x/sync/errgroup"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/tools/ensure/locate"
)

const folder = "screenshots"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	prefix := strings.Join(os.Args[1:], " ")
	if err := run(ctx, prefix); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, prefix string) error {
	program, err := locate.HeadlessShell.Find()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	browser, end := browsertest.StartChromium(ctx, program)
	defer end()
	if err := chromedp.Do(browser); err != nil { // starts it, before tabs are opened side by side
		return err
	}
	if err := drawAll(browser, prefix); err != nil {
		return err
	}
	if strings.HasPrefix("story", prefix) {
		if err := drawStory(browser); err != nil {
			return err
		}
	}
	if !strings.HasPrefix("demo", prefix) {
		return nil
	}
	return drawDemo(ctx, browser)
}

// drawAll takes two states at a time: more would only wait for each other.
func drawAll(browser context.Context, prefix string) error {
	var group errgroup.Group
	group.SetLimit(2)
	each := func(name, lang string, draw func() error) {
		if !strings.HasPrefix(name, prefix) {
			return
		}
		group.Go(func() error {
			if err := draw(); err != nil {
				return fmt.Errorf("%s, %s: %w", name, lang, err)
			}
			return nil
		})
	}
	for _, lang := range []string{"en", "zh", "ar"} {
		for _, s := range pagetest.WidgetStates() {
			each(s.Name, lang, func() error { return drawWidget(browser, s, lang) })
		}
	}
	return group.Wait()
}

func drawWidget(browser context.Context, s pagetest.WidgetState, lang string) error {
	world, site, err := s.World(lang)
	if err != nil {
		return err
	}
	defer world.Close()
	defer site.Close()
	reach := chromedp.Func(func(tab context.Context, _ *chromedp.Target) error {
		return s.Reach(browsertest.InChromium(tab), world)
	})
	return drawLooks(browser, s.Name, pagetest.Look{Lang: lang}, chromedp.Navigate(site.URL), reach)
}

// drawLooks takes the steps in a tab of its own, and a picture of where they lead at each width, light and dark.
func drawLooks(browser context.Context, name string, look pagetest.Look, steps ...chromedp.Action[chromedp.Void]) error {
	tab, end := browsertest.ChromiumTab(browser)
	defer end()
	look.Width, look.Height, look.Motion, look.Zone = 1280, 720, true, "Etc/GMT-1" // UTC tells no zone
	if err := chromedp.Do(tab, append([]chromedp.Action[chromedp.Void]{look.Apply()}, steps...)...); err != nil {
		return err
	}
	for _, size := range [][2]int64{{320, 640}, {375, 640}, {1280, 720}} {
		for _, dark := range []bool{false, true} {
			look.Width, look.Height, look.Dark = size[0], size[1], dark
			if err := shoot(tab, name, look); err != nil {
				return err
			}
		}
	}
	return nil
}

// shoot makes the window as tall as the page: what Chromium draws beyond a window is shifted sideways
// where a page is written from right to left.
func shoot(tab context.Context, name string, look pagetest.Look) error {
	if err := chromedp.Do(tab, look.Apply()); err != nil {
		return err
	}
	tall, err := chromedp.Run(tab, chromedp.Evaluate[int64](`document.documentElement.scrollHeight`))
	if err != nil {
		return err
	}
	look.Height = max(look.Height, tall)
	if err := chromedp.Do(tab, look.Apply()); err != nil {
		return err
	}
	picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	shade := map[bool]string{false: "light", true: "dark"}[look.Dark]
	file := fmt.Sprintf("%s-%s-%d-%s.png", name, look.Lang, look.Width, shade)
	return os.WriteFile(filepath.Join(folder, file), picture, 0o644)
}
