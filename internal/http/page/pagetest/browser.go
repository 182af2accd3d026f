package pagetest

import (
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"sendcode/internal/kit/browsertest"
)

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
		zone = browsertest.Command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: l.Zone})
	}
	return chromedp.Steps(zone,
		browsertest.Command(network.Enable, network.EnableParams{}),
		browsertest.Command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: l.Width, Height: l.Height, DeviceScaleFactor: 1,
		}),
		browsertest.Command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
		}}),
		// else keys go to the newest tab
		browsertest.Command(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
		browsertest.Command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.NoScript}),
		browsertest.Command(network.SetExtraHTTPHeaders,
			network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": l.Lang}}),
	)
}

// Offline disconnects the tab from the network, or connects it again.
func Offline(off bool) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		browsertest.Command(network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{
				Offline: off, DownloadThroughput: -1,
				UploadThroughput: -1,
			}},
		}),
		browsertest.Command(network.OverrideNetworkState,
			network.OverrideNetworkStateParams{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}),
	)
}
