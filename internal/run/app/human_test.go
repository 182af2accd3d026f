package app

import (
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/core"
)

const twoVendors = `apps:
  - {name: shop, human_check: {by: http, url: "http://127.0.0.1:1/", secret_env: VENDOR}}
  - {name: gym, human_check: {by: http, url: "http://127.0.0.1:1/", secret_env: VENDOR}}
`

// If the check of one app can't be used, no probes of the others' vendors begin.
func TestPrepareHumanChecksStartsNothing(t *testing.T) {
	cfg := loadConfig(t, twoVendors, "VENDOR=s3cret")
	a := &App{core: &core.Core{}}
	cfg.Apps[len(cfg.Apps)-1].HumanCheck.URL = "ftp://127.0.0.1/"
	servertest.Bubble(t, func(t *testing.T) { // which fails if a goroutine is left
		_, err := a.prepareHumanChecks(cfg)
		if err == nil || !strings.Contains(err.Error(), `the app "gym": human_check.url`) {
			t.Error(err)
		}
	})
}

// A vendor whose settings are unchanged keeps its client and its probes.
func TestUseHumanChecksKeepsVendors(t *testing.T) {
	a := newAlone(t, twoVendors, "VENDOR=s3cret")
	t.Cleanup(func() { servertest.OK(t, a.close()) })
	before := a.vendors
	cfg := loadConfig(t, strings.Replace(twoVendors, "gym, human_check: {by: http,", "gym, human_check: {by: http, send_ip: true,", 1), "VENDOR=s3cret")
	checks, err := a.prepareHumanChecks(cfg)
	servertest.OK(t, err)
	a.useHumanChecks(checks)
	if a.vendors["shop"].client != before["shop"].client || a.vendors["gym"].client == before["gym"].client ||
		a.vendors["gym"].stop == nil || len(*a.vendorClients.Load()) != 2 {
		t.Errorf("%+v, and before %+v", a.vendors, before)
	}
}
