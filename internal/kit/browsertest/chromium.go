package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/kit/servertest"
)

// StartChromium starts a headless Chromium, which ends with the context. Its options turn off
// traffic of its own, such as updates, and features that help only with many pages.
func StartChromium(ctx context.Context, program string, more ...chromedp.ExecAllocatorOption) (context.Context,
	context.CancelFunc,
) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("disable-features", "site-per-process,Translate,SpareRendererForSitePerProcess"),
		chromedp.Flag("in-process-gpu", true), chromedp.Flag("num-raster-threads", "1"),
		chromedp.Env("TMPDIR=/tmp"), // for its socket, whose path may have at most 107 bytes
	)
	ctx, stop := chromedp.NewExecAllocator(ctx, append(options, more...)...)
	ctx, cancel := chromedp.NewContext(ctx)
	return ctx, func() { cancel(); stop() }
}

// CookielessChromium starts a Chromium that keeps no cookies.
func CookielessChromium(t testing.TB) context.Context {
	t.Helper()
	profile, err := os.MkdirTemp("", "profile") // a whole Chromium is needed, since the headless shell reads no profile
	servertest.OK(t, err)
	servertest.OK(t, os.CopyFS(profile, fstest.MapFS{"Default/Preferences": {Data: []byte(
		`{"profile": {"default_content_setting_values": {"cookies": 2}}}`)}}))
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	browser, end := StartChromium(context.Background(), servertest.Chromium(t), chromedp.UserDataDir(profile))
	t.Cleanup(end)
	servertest.OK(t, chromedp.Do(browser))
	return browser
}

// ChromiumTab opens a tab with its own cookies.
func ChromiumTab(browser context.Context) (context.Context, context.CancelFunc) {
	return chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
}

// InChromium returns the Tab of a context from [ChromiumTab].
func InChromium(tab context.Context) *Tab { return &Tab{chromiumTab{tab}} }

// Chromium starts a headless Chromium. Each tab without cookies gets another Chromium.
func Chromium(t testing.TB) Browser {
	t.Helper()
	browser, end := StartChromium(context.Background(), servertest.HeadlessShell(t))
	t.Cleanup(end)
	servertest.OK(t, chromedp.Do(browser))
	return Browser{func(t testing.TB, look Look) (driver, error) {
		t.Helper()
		in := browser
		if look.NoCookies {
			in = CookielessChromium(t)
		}
		tab, end := ChromiumTab(in)
		t.Cleanup(end)
		return chromiumTab{tab}, chromedp.Do(tab)
	}}
}

// chromiumTab implements driver.
type chromiumTab struct{ ctx context.Context }

func (c chromiumTab) do(steps ...chromedp.Action[chromedp.Void]) error {
	return chromedp.Do(c.ctx, steps...)
}

func (c chromiumTab) open(address string) error { return c.do(chromedp.Navigate(address)) }

func (c chromiumTab) eval(expression string) (string, error) {
	return chromedp.Run(c.ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
}

// chromiumKeys replaces the keys of WebDriver by those of chromedp.
var chromiumKeys = strings.NewReplacer(PageDown, kb.PageDown, End, kb.End, Home, kb.Home, ArrowDown, kb.ArrowDown)

func (c chromiumTab) keys(text string) error {
	return c.do(chromedp.KeyEvent(chromiumKeys.Replace(text)))
}

func (c chromiumTab) show(look Look) error { return c.do(look.Apply()) }

// picture returns a picture of the whole page. In a full screenshot of a right-to-left page,
// Chromium shifts the parts beyond the window. For such a page, picture gives the window the height
// of the page for a while.
func (c chromiumTab) picture() ([]byte, error) {
	text, err := c.eval(`JSON.stringify({ rtl: getComputedStyle(document.documentElement).direction === 'rtl',
		width: innerWidth, height: innerHeight, scrollHeight: document.documentElement.scrollHeight })`)
	if err != nil {
		return nil, err
	}
	var page struct {
		RTL                         bool
		Width, Height, ScrollHeight int64
	}
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		return nil, err
	}
	if !page.RTL {
		return chromedp.Run(c.ctx, chromedp.FullScreenshot(100))
	}
	resize := func(height int64) error {
		return c.do(Command(emulation.SetDeviceMetricsOverride,
			emulation.SetDeviceMetricsOverrideParams{Width: page.Width, Height: height, DeviceScaleFactor: 1}))
	}
	if err := resize(max(page.Height, page.ScrollHeight)); err != nil {
		return nil, err
	}
	png, err := chromedp.Run(c.ctx, chromedp.CaptureScreenshot())
	return png, errors.Join(err, resize(page.Height))
}

// Apply returns the action that sets the look of a Chromium tab.
func (l Look) Apply() chromedp.Action[chromedp.Void] {
	scheme, motion := "light", "reduce"
	if l.Dark {
		scheme = "dark"
	}
	if l.Motion {
		motion = "no-preference"
	}
	steps := []chromedp.Action[chromedp.Void]{
		Command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: l.Width, Height: l.Height, DeviceScaleFactor: 1,
		}),
		Command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
		}}),
		chromedp.Func(stayOnline),
		// without this, keys go to the newest tab
		Command(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
	}
	if l.Zone != "" {
		steps = append(steps, Command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: l.Zone}))
	}
	if l.Lang != "" {
		steps = append(steps, Command(network.Enable, network.EnableParams{}),
			Command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": l.Lang}}))
	}
	return chromedp.Steps(steps...)
}

// Online sets the tab's navigator.onLine. On a machine where only the loopback interface is up,
// Chromium would report that it is offline. The rates change only navigator.connection, but without
// them Chromium would report its own state again.
func Online(is bool) chromedp.Action[chromedp.Void] {
	const fast = 1e9
	return Command(network.OverrideNetworkState,
		network.OverrideNetworkStateParams{Offline: !is, DownloadThroughput: fast, UploadThroughput: fast})
}

// stayOnline makes the tab's navigator.onLine true.
func stayOnline(ctx context.Context, _ *chromedp.Target) error {
	online, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("navigator.onLine"))
	if err != nil || online {
		return err
	}
	return chromedp.Do(ctx, Online(true))
}

// Command returns an action that sends one command of the DevTools protocol to the tab.
func Command[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}
