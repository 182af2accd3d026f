package pagetest

import (
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"sendcode/internal/kit/browsertest"
)

// Offline returns an action that disconnects the tab from the network, or connects the tab again if
// off is false.
func Offline(off bool) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		browsertest.Command(network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{
				Offline: off, DownloadThroughput: -1,
				UploadThroughput: -1,
			}},
		}),
		browsertest.Online(!off),
	)
}
