package vendors_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/humancheck/vendors"
)

// each runs a test for each vendor in virtual time.
func each(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(kind, func(t *testing.T) { servertest.Bubble(t, func(t *testing.T) { test(t, kind) }) })
	}
}

// Each token has its result. Whatever strangers send, and however often, the vendor stays in use.
func TestTokens(t *testing.T) {
	const used, old, host, no = humancheck.Used, humancheck.Expired, humancheck.OtherHost, humancheck.Rejected
	want := map[string][]humancheck.Reason{ // the results after a token that passes: for the same token again, and for each other token
		"turnstile": {used, used, "", "", "", no, ""}, "hcaptcha": {used, old, "", "", "", "", ""},
		"recaptcha": {used, used, host, "", "", "", no},
		"http":      {no, no, "", "", "", "", ""},
	}
	result := func(why humancheck.Reason) humancheck.Result {
		return humancheck.Result{Passed: why == "", Reason: why, Host: map[humancheck.Reason]string{host: "evil.example"}[why]}
	}
	each(t, func(t *testing.T, kind string) {
		v, f, changes := newVendor(t, kind)
		servertest.Same(t, "a good token", ask(v, "good_1", "n"), humancheck.Result{Passed: true})
		for i, token := range []string{"good_1", "old", "elsewhere", "nohost", "nottold", "login", "robot"} {
			servertest.Same(t, token, ask(v, token, "n"), result(want[kind][i]))
		}
		if v.OwnHostnames = true; kind != "http" {
			servertest.Same(t, "a host that the operator has not given", ask(v, "elsewhere", "n"), result(host))
			servertest.Same(t, "a host that is not told", ask(v, "nottold", "n"), result(""))
		}
		for _, token := range []string{"garbage", "malformed", "othersite", "10000000-aaaa-bbbb-cccc-000000000001"} {
			for n := range 5 {
				servertest.Same(t, token, ask(v, token, fmt.Sprint(token, n)), humancheck.Result{Reason: no})
			}
		}
		asked := f.questions()
		// Except for the empty one, a vendor would treat all of these as one token.
		for _, token := range []string{"", "good_2 ", "good_2\t", "good_2\u00a0", "good_2\x00"} {
			servertest.Same(t, fmt.Sprintf("%q", token), ask(v, token, "n"), humancheck.Result{Reason: no})
		}
		servertest.Same(t, "questions about it", f.questions(), asked)
		if !v.Available() || len(*changes) > 0 || strings.Join(f.ips, "") != "" {
			t.Errorf("in use %v, heard %v, addresses %q", v.Available(), *changes, f.ips)
		}
	})
}

// After three calls, a vendor that is away, or that refuses the secret, is no longer used, and the
// operator gets the reason. No stranger is refused because of that: the challenge is work.
func TestVendorThatFailsIsReplacedByWork(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		for mode, why := range map[string]string{
			"slow": "does not answer within 3 s", "503": "answers 503", "refused": "cannot be reached",
			"secret": "refuses the secret",
		} {
			v, f, changes := newVendor(t, kind)
			f.mode, f.wrong = mode, mode == "secret"
			for n := range 5 {
				began := time.Now()
				servertest.Same(t, mode, ask(v, "good", fmt.Sprint(n)), humancheck.Result{Away: true})
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("%s: a person waited %v", mode, took)
				}
			}
			if len(*changes) != 1 || (*changes)[0].Up || (*changes)[0].Why != why || (*changes)[0].Server != "shop/"+v.By() || v.Available() ||
				f.questions() > delivery.FaultsToOpenBreaker {
				t.Errorf("%s: %+v, in use %v, asked %d times", mode, *changes, v.Available(), f.questions())
			}
		}
	})
}

// Unreadable answers, and answers that a token may have caused, do not switch the vendor off, since
// strangers could cause them. A probe switches it off within half a minute, and on again later.
func TestUnclearAnswersAreProbed(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		for mode, c := range map[string]struct {
			away bool
			why  string
		}{
			"html": {false, "is the URL right"}, "empty": {false, "is the URL right"}, "huge": {false, "is the URL right"},
			"404":      {false, "is the URL right"},
			"redirect": {false, "final URL"}, "broken": {true, "connection broke"}, "429": {true, "too many requests"},
		} {
			v, f, changes := newVendor(t, kind)
			ctx, cancel := context.WithCancel(t.Context())
			go v.Watch(ctx)
			synctest.Wait()
			f.set(mode)
			for n := range 20 {
				if got := ask(v, "good", fmt.Sprint(n)); got.Passed || got.Away != c.away {
					t.Errorf("%s: %+v", mode, got)
				}
			}
			if !v.Available() || f.elsewhere > 0 {
				t.Errorf("%s: strangers have switched the vendor off, or a redirect was followed", mode)
			}
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if h := v.Health(); h.Up || !strings.Contains(h.Why, c.why) || strings.Contains(h.Why, "canary") {
				t.Errorf("%s: after half a minute %+v", mode, h)
			}
			f.set("")
			time.Sleep(15 * time.Second)
			synctest.Wait()
			if !v.Available() || len(*changes) != 2 || ask(v, "good_again", "n") != (humancheck.Result{Passed: true}) {
				t.Errorf("%s: not back: %+v", mode, *changes)
			}
			cancel()
			synctest.Wait()
		}
	})
}

// The service finds out that a vendor refuses the secret before the first stranger comes, even if
// the answer could be about a token.
func TestWatchFindsWrongSecret(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		v, f, _ := newVendor(t, kind)
		f.wrong = true
		ctx, cancel := context.WithCancel(t.Context())
		go v.Watch(ctx)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if h := v.Health(); h.Up || !strings.HasSuffix(h.Why, "refuses the secret") {
			t.Errorf("%+v", h)
		}
		cancel()
	})
}

// Garbage comes from a thousand networks. The calls for one network, the calls for one app, and the
// calls under way at once stay within their bounds. The other requests get work, and the vendor
// stays in use.
func TestQuestionsAreBounded(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		v, f, changes := newVendor(t, "turnstile", func(c *vendors.Config) { c.AsksPerHour = 500 })
		for range 40 {
			ask(v, "garbage", "one network")
		}
		servertest.Same(t, "questions of one network", f.questions(), 30)
		for range 40 {
			ask(v, "garbage", "")
		}
		servertest.Same(t, "and without a network", f.questions(), 70)
		for n := range 1000 {
			ask(v, "garbage", fmt.Sprint(n))
		}
		servertest.Same(t, "questions of an app", f.questions(), 500)
		servertest.Same(t, "a person then", ask(v, "good", "another"), humancheck.Result{Away: true})
		time.Sleep(time.Hour)
		servertest.Same(t, "an hour later", ask(v, "good", "one network"), humancheck.Result{Passed: true})
		if !v.Available() || len(*changes) > 0 {
			t.Errorf("%+v", *changes)
		}

		v, f, _ = newVendor(t, "turnstile")
		f.mode = "slow"
		var all sync.WaitGroup
		for n := range 50 {
			all.Go(func() { ask(v, "good", fmt.Sprint(n)) })
		}
		synctest.Wait()
		servertest.Same(t, "questions at once", f.questions(), 32)
		all.Wait()
	})
}

// `sendcode doctor` prints these sentences about each vendor.
func TestProbe(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		for mode, want := range map[string]string{
			"": "127.0.0.1 answers, and takes the secret", "secret": "127.0.0.1: refuses the secret",
			"refused": "127.0.0.1: cannot be reached",
			"404":     "127.0.0.1: does not answer as its documentation says: is the URL right?",
		} {
			v, f, _ := newVendor(t, kind)
			f.mode, f.wrong = mode, mode == "secret"
			got, err := v.Probe(t.Context())
			if err != nil {
				got = err.Error()
			}
			servertest.Same(t, mode, got, want)
		}
	})
}

func TestClientsAddressIsGivenOnlyIfWanted(t *testing.T) {
	for kind, want := range map[string]string{"turnstile": ip, "hcaptcha": ip, "recaptcha": ip, "http": ip} {
		servertest.Bubble(t, func(t *testing.T) {
			v, f, _ := newVendor(t, kind, func(c *vendors.Config) { c.SendIP = true })
			ask(v, "good", "n")
			servertest.Same(t, kind, strings.Join(f.ips, " "), want)
		})
	}
}

// If a client hangs up, that is no fault of the vendor.
func TestCanceledQuestionIsNoFault(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		v, f, _ := newVendor(t, "turnstile")
		f.mode = "slow"
		for n := range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			result, err := v.Check(ctx, humancheck.VendorQuery{Token: "good", App: "shop", Network: fmt.Sprint(n)})
			cancel()
			if err == nil || !result.Away || !v.Available() {
				t.Fatalf("%+v, %v", result, err)
			}
		}
	})
}

func TestSettings(t *testing.T) {
	good := vendors.Config{By: "turnstile", SiteKey: "k", Secret: "s", Hostnames: []string{"h"}, AsksPerHour: 1}
	for _, c := range []struct {
		change func(*vendors.Config)
		wrong  string // the keys of wrong settings
	}{
		{func(*vendors.Config) {}, ""},
		{func(c *vendors.Config) { c.By = "altcha" }, "by"},
		{func(c *vendors.Config) { *c = vendors.Config{By: "hcaptcha"} }, "asks_per_hour secret site_key"},
		{func(c *vendors.Config) { c.URL = "http://vendor.example/verify" }, "url"},
		{func(c *vendors.Config) { c.URL = "http://127.0.0.1:3000/" }, ""},
		{func(c *vendors.Config) { c.By = "http" }, "url"},
		{func(c *vendors.Config) { c.By, c.SiteKey, c.URL = "http", "", "https://h/" }, ""},
	} {
		config := good
		c.change(&config)
		got := strings.Join(slices.Sorted(maps.Keys(config.Check())), " ")
		servertest.Same(t, fmt.Sprintf("%+v", config), got, c.wrong)
		if _, err := vendors.New(config, "shop", vendors.NewBounds(nil), nil); (err == nil) != (c.wrong == "") {
			t.Errorf("%+v: %v", config, err)
		}
	}
}
