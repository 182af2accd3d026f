//go:build nightly

// Only make nightly runs this test: it needs a Chromium that is started with other flags than the
// one that the other tests share.

package page_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"sendcode/internal/http/evp/evptest"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
)

// firstWithEVP is the first version of Chromium that is known to bring tokens, if it is started
// with a flag. A newer one that brings none fails: the protocol has changed
// (docs/decisions/0021-evp.md).
const firstWithEVP = 156

// Chromium gets a token for an address that is typed, and the person is approved without a mail.
func TestChromiumProvesAnAddress(t *testing.T) {
	p := newProving(t)
	certificate := sha256.Sum256(p.provider.Certificate().RawSubjectPublicKeyInfo)
	at := p.provider.Listener.Addr().String()
	ctx, end := pagetest.Browser(context.Background(), servertest.Chromium(t),
		chromedp.Flag("enable-features", "EmailVerificationProtocol"),
		chromedp.Flag("auto-grant-email-verification-permission-for-testing", true),
		chromedp.Flag("host-resolver-rules", "MAP "+evptest.Host+":443 "+at+", MAP dns.google:443 "+at),
		chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(certificate[:])),
	)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, servertest.Patience)
	defer cancel()
	b := &tab{T: t, ctx: ctx, world: p.World, root: "document"}
	b.visit("")
	version, err := chromedp.CallBrowser(ctx, browser.GetVersion, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	var major int
	_, number, _ := strings.Cut(version.Product, "/")
	if _, err := fmt.Sscanf(number, "%d.", &major); err != nil {
		t.Fatal(version.Product, err)
	}
	if major < firstWithEVP {
		t.Skipf("%s does not have the Email Verification Protocol: it needs %d", version.Product, firstWithEVP)
	}
	flows := func() (sum, n int) { // of Chromium's attempts to get a token
		found, err := chromedp.CallBrowser(ctx, browser.GetHistograms,
			browser.GetHistogramsParams{Query: "Blink.Evp.Autofill.FlowResult"})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range found.Histograms {
			sum, n = sum+int(h.Sum), n+int(h.Count)
		}
		return sum, n
	}
	const tokenSent = 10
	for got := 0; got != tokenSent; { // on a busy machine Chromium gives up, or never begins: then the person comes again
		b.visit("")
		b.until(`document.querySelector("[name=evt]").getAttribute("nonce")`) // it was given back
		sum, n := flows()
		b.click("#to")
		b.keys(evptest.Address + "\t")
		tick, late := time.NewTicker(glance), time.Now().Add(servertest.Patience/10)
		for time.Now().Before(late) {
			if now, ended := flows(); ended > n {
				got = now - sum
				break
			}
			<-tick.C
		}
		tick.Stop()
		if got != tokenSent {
			t.Logf("Chromium got no token: result %d; it asked for %v", got, p.provider.Seen())
		}
	}
	b.click("#send")
	b.card("approved")
	is(t, len(p.Codes.Asks()), 0)
}
