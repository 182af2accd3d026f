package pagetest

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Browser starts a headless Chromium, which ends with the context. It keeps its profile in a
// directory of its own, since its child processes may still write there when the first one has
// ended. It loads only the pages that it is sent to. Features that serve only many pages are off.
func Browser(ctx context.Context, program string, more ...chromedp.ExecAllocatorOption) (context.Context,
	context.CancelFunc) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("disable-features", "site-per-process,Translate,SpareRendererForSitePerProcess"),
		chromedp.Flag("in-process-gpu", true), chromedp.Flag("num-raster-threads", "1"),
	)
	ctx, stop := chromedp.NewExecAllocator(ctx, append(options, more...)...)
	ctx, cancel := chromedp.NewContext(ctx)
	return ctx, func() { cancel(); stop() }
}

// Tab opens a tab with its own cookies.
func Tab(browser context.Context) (context.Context, context.CancelFunc) {
	return chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
}

// Look is how a tab shows a page.
type Look struct {
	Width, Height int64 // CSS pixels
	Dark          bool
	Motion        bool // prefers-reduced-motion: no-preference, else reduce: motion takes a processor
	NoScript      bool
	Lang          string // Accept-Language
	Zone          string // of the browser's clock; "": as it was
}

// WideAndDark returns two looks: 1280 pixels wide in light colours, and the look's own width in
// dark ones.
func (l Look) WideAndDark() [2]Look {
	wide, dark := l, l
	wide.Width, wide.Dark, dark.Dark = 1280, false, true
	return [2]Look{wide, dark}
}

// Apply sets a tab's size, colours, language and so on to the look.
func (l Look) Apply() chromedp.Action[chromedp.Void] {
	scheme, motion := "light", "reduce"
	if l.Dark {
		scheme = "dark"
	}
	if l.Motion {
		motion = "no-preference"
	}
	var zone chromedp.Action[chromedp.Void] = chromedp.Steps()
	if l.Zone != "" {
		zone = Command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: l.Zone})
	}
	return chromedp.Steps(zone,
		Command(network.Enable, network.EnableParams{}),
		Command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: l.Width, Height: l.Height, DeviceScaleFactor: 1,
		}),
		Command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
		}}),
		// else keys go to the newest tab
		Command(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
		Command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.NoScript}),
		Command(network.SetExtraHTTPHeaders,
			network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": l.Lang}}),
	)
}

// Command returns an action that sends one command of the DevTools protocol to the tab.
func Command[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// Adopt gives a tab the cookies of the world's visitor.
func (w *World) Adopt() chromedp.Action[chromedp.Void] {
	var steps []chromedp.Action[chromedp.Void]
	for _, c := range w.Cookies() {
		steps = append(steps, Command(network.SetCookie, network.SetCookieParams{
			Name: c.Name, Value: c.Value, URL: w.URL, HTTPOnly: new(true), SameSite: network.CookieSameSiteLax,
		}))
	}
	return chromedp.Steps(steps...)
}

// Offline disconnects the tab from the network, or connects it again.
func Offline(off bool) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		Command(network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{Offline: off, DownloadThroughput: -1,
				UploadThroughput: -1}},
		}),
		Command(network.OverrideNetworkState,
			network.OverrideNetworkStateParams{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}),
	)
}
