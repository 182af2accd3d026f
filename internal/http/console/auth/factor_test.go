package auth

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/quota"
)

// begin begins to set up a second factor. It returns the device, and the sealed secret that the
// page keeps.
func (r *rig) begin(b *consoletest.Browser, password string) (d consoletest.Device, kept string) {
	r.Helper()
	page := want(r.T, b.Post(factorPath, url.Values{"do": {"begin"}, "password": {password}}), http.StatusOK).Body.String()
	d = r.NewDevice(consoletest.Between(r.T, page, `data-whole="`, `"`))
	return d, consoletest.Between(r.T, page, `name="kept" value="`, `"`)
}

func confirm(b *consoletest.Browser, kept, code string) *httptest.ResponseRecorder {
	b.Helper()
	return b.Post(factorPath, url.Values{"do": {"confirm"}, "kept": {kept}, "code": {code}})
}

// setUp sets up a second factor and confirms it with a code. It returns the device.
func (r *rig) setUp(b *consoletest.Browser, password string) consoletest.Device {
	r.Helper()
	d, kept := r.begin(b, password)
	want(r.T, confirm(b, kept, d.Code()), http.StatusOK)
	return d
}

func giveCode(b *consoletest.Browser, code string) *httptest.ResponseRecorder {
	b.Helper()
	return b.Post(codePath, url.Values{"code": {code}, "next": {"/admin/overview"}})
}

// loggedInWithoutCode returns a browser that has sent the password, but no code.
func (r *rig) loggedInWithoutCode() *consoletest.Browser {
	r.Helper()
	b := r.Browser()
	want(r.T, b.Login(consoletest.Password), http.StatusSeeOther)
	return b
}

func TestSecondFactor(t *testing.T) {
	r := newRig(t)
	b, before := r.LoggedIn(), r.LoggedIn()
	contains(t, b.Get(factorPath), "only with a password")
	d := r.setUp(b, consoletest.Password)
	want(t, b.Get("/admin"), http.StatusOK)
	// A login by only the password lacks the code.
	for _, half := range []*consoletest.Browser{before, r.loggedInWithoutCode()} {
		redirects(t, half.Get("/admin/policies"), "/admin/login/code?next=%2Fadmin%2Fpolicies")
		want(t, half.Get("/v1/admin/sends"), http.StatusUnauthorized)
		want(t, half.Get(factorPath), http.StatusSeeOther)
		want(t, half.Post(factorPath, url.Values{"do": {"remove"}, "code": {d.Code()}}), http.StatusSeeOther)
		contains(t, half.Get(codePath+"?next=/admin/policies"), `name="back" value="/admin/login/code?next=%2Fadmin%2Fpolicies"`)
		want(t, half.Get("/admin/login"), http.StatusOK)
	}
	half := r.loggedInWithoutCode()
	known := func() bool { return half.Cookies[knownBrowserCookieName("admin")] != nil }
	servertest.Same(t, "known by the password alone", known(), false)
	old := half.Cookies[sessionCookieName].Value
	want(t, giveCode(half, ""), http.StatusUnprocessableEntity)
	rec := want(t, giveCode(half, d.Wrong()), http.StatusUnauthorized)
	contains(t, rec, "wrong or was used before", "4 tries left", `value="/admin/overview"`)
	want(t, giveCode(half, d.Code()), http.StatusUnauthorized) // the code that confirmed the app can't be used again
	code := d.Next()
	redirects(t, giveCode(half, code[:3]+" "+code[3:]), "/admin/overview")
	servertest.Same(t, "known by the code", known(), true)
	want(t, half.Get("/admin"), http.StatusOK)
	if half.Cookies[sessionCookieName].Value == old {
		t.Error("the cookie of before goes on")
	}
	half.Cookies[sessionCookieName].Value = old
	want(t, half.Get(codePath), http.StatusSeeOther) // its session has ended
	redirects(t, half.Get("/admin"), "/admin/login")
	r.WantActs(
		consoletest.Act{Who: "admin", What: "factor.add", Outcome: "done"},
		consoletest.Act{Who: "admin", What: "login.password", Outcome: "done"},
		consoletest.Act{Who: "admin", What: "login.password", Outcome: "done"})
	if last := r.Entries("")[0]; last.Who != "admin" || last.What != actionLogin {
		t.Errorf("%+v", last)
	}
	r.Unlogged(d.Secret, code)
}

// Each code works once, even if two browsers send it to two replicas.
func TestSecondFactorCodeWorksOnce(t *testing.T) {
	r := newRig(t)
	d := r.setUp(r.LoggedIn(), consoletest.Password)
	code := d.Next()
	first, second := r.loggedInWithoutCode(), r.loggedInWithoutCode()
	second.Handler = r.replica(quiet())
	want(t, giveCode(first, code), http.StatusSeeOther)
	want(t, giveCode(second, code), http.StatusUnauthorized)
}

// The form finds a code in a typed text as the pages for recipients do. A text without a code costs
// no attempt.
func TestSecondFactorFindsTheCodeInAText(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	d, kept := r.begin(b, consoletest.Password)
	contains(t, want(t, confirm(b, kept, "12345"), http.StatusUnprocessableEntity), "six digits", d.Secret)
	want(t, confirm(b, kept, "Code: "+d.Code()+"."), http.StatusOK)
	half := r.loggedInWithoutCode()
	for range 2 {
		for _, typed := range []string{"12345", "1234567", "my code", "l23456", "123456 654321", "\u200b", "otpauth://totp"} {
			want(t, giveCode(half, typed), http.StatusUnprocessableEntity)
		}
	}
	for _, write := range []func(code string) string{
		func(code string) string { return strings.Map(func(r rune) rune { return r - '0' + '０' }, code) },
		func(code string) string { return strings.Map(func(r rune) rune { return r - '0' + '٠' }, code) },
		func(code string) string { return code[:3] + "\u202f" + code[3:] },
		func(code string) string { return code[:3] + "." + code[3:] + "." },
		func(code string) string { return "\u2066" + code[:3] + "–" + code[3:] + "\u2069" },
		func(code string) string { return "Code " + code },
	} {
		want(t, giveCode(r.loggedInWithoutCode(), write(d.Next())), http.StatusSeeOther)
		r.Clock.Add(15 * time.Minute) // right codes are counted too
	}
}

// An app may keep only one key for an issuer and an account, so the issuer contains the host. An
// app on the same device gets the key by a link.
func TestSecondFactorIssuerNamesTheHost(t *testing.T) {
	for base, issuer := range map[string]string{
		consoletest.Address: "sendcode%20console.example", "https://[2001:db8::1]:8443": "sendcode%20%5B2001%20db8%20%201%5D%208443",
	} {
		b := newRig(t).Browser()
		b.Base = base
		want(t, b.Login(consoletest.Password), http.StatusSeeOther)
		page := want(t, b.Post(factorPath, url.Values{"do": {"begin"}, "password": {consoletest.Password}}), http.StatusOK)
		contains(t, page, `href="otpauth://totp/`+issuer+":admin?", "issuer="+issuer)
	}
}

func TestSecondFactorGuesses(t *testing.T) {
	r := newRig(t)
	d := r.setUp(r.LoggedIn(), consoletest.Password)
	for i := range 5 {
		half := r.loggedInWithoutCode()
		half.From = fmt.Sprintf("198.51.100.%d:1", i) // each from another address
		want(t, giveCode(half, d.Wrong()), http.StatusUnauthorized)
	}
	half := r.loggedInWithoutCode()
	rec := want(t, giveCode(half, d.Next()), http.StatusTooManyRequests)
	servertest.Same(t, "Retry-After", rec.Header().Get("Retry-After"), "870")
	r.Clock.Add(15 * time.Minute)
	want(t, half.Get(codePath), http.StatusSeeOther) // the login ends after 10 minutes without a code
	want(t, giveCode(r.loggedInWithoutCode(), d.Next()), http.StatusSeeOther)
	for range 24 {
		r.Clock.Add(15 * time.Minute)
		want(t, giveCode(r.loggedInWithoutCode(), d.Wrong()), http.StatusUnauthorized)
	}
	r.Clock.Add(15 * time.Minute)
	want(t, giveCode(r.loggedInWithoutCode(), d.Next()), http.StatusTooManyRequests)
}

// A login without its code lasts ten minutes, and can be canceled.
func TestSecondFactorLoginExpires(t *testing.T) {
	r := newRig(t)
	d := r.setUp(r.LoggedIn(), consoletest.Password)
	half, other := r.loggedInWithoutCode(), r.loggedInWithoutCode()
	want(t, other.Post("/admin/logout", url.Values{}), http.StatusSeeOther)
	want(t, other.Get(codePath), http.StatusSeeOther)
	r.Clock.Add(secondFactorTimeout - time.Microsecond)
	want(t, half.Get(codePath), http.StatusOK)
	r.Clock.Add(time.Microsecond)
	want(t, giveCode(half, d.Next()), http.StatusSeeOther)
	redirects(t, half.Get("/admin"), "/admin/login")
}

// A session alone is not enough to add or remove a second factor.
func TestChangingTheSecondFactor(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	for form, status := range map[string]int{
		"do=begin&password=wrong": 401, "do=begin": 401, "do=remove&code=000000": 401, "do=confirm&code=000000": 422, "do=dance": 422,
	} {
		want(t, b.Do(http.MethodPost, factorPath, form, "Content-Type", "application/x-www-form-urlencoded"), status)
	}
	d, kept := r.begin(b, consoletest.Password)
	rec := want(t, confirm(b, kept, d.Wrong()), http.StatusUnprocessableEntity)
	contains(t, rec, groupByFour(d.Secret), "Check the clock") // the page shows the same secret again
	want(t, confirm(r.LoggedIn(), kept, d.Code()), http.StatusUnprocessableEntity)
	r.Clock.Add(enrolTimeout)
	want(t, confirm(b, kept, d.Code()), http.StatusUnprocessableEntity)
	if _, err := r.Store.SecondFactor(t.Context(), "admin"); err == nil {
		t.Fatal("set up all the same")
	}

	late, kept := r.begin(b, consoletest.Password)
	d = r.setUp(b, consoletest.Password)
	want(t, confirm(b, kept, late.Code()), http.StatusUnprocessableEntity) // the secret belongs to a session that has ended

	want(t, b.Post(factorPath, url.Values{"do": {"remove"}, "code": {d.Next()}}), http.StatusOK)
	want(t, r.loggedInWithoutCode().Get("/admin"), http.StatusOK)
	r.WantActs(
		consoletest.Act{Who: "admin", What: "factor.add", Outcome: "done"},
		consoletest.Act{Who: "admin", What: "factor.remove", Outcome: "done"})
}

func TestSecondFactorIsDemanded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.DemandFactor = true })
	b := r.LoggedIn()
	for path, to := range map[string]string{
		"/admin": factorPath, "/admin/accounts": factorPath + "?next=%2Fadmin%2Faccounts",
		"/admin?status=failed&app=shop": factorPath + "?next=%2Fadmin%3Fstatus%3Dfailed%26app%3Dshop",
		"/v1/admin/sends.csv?app=shop":  factorPath + "?next=%2Fadmin%3Fapp%3Dshop",
	} {
		redirects(t, b.Get(path, "Accept", "text/html"), to)
	}
	// The pages that set up the factor keep the page that was asked for, and lead there at the end.
	const next, field = "/admin?status=failed", `name="next" value="/admin?status=failed"`
	contains(t, b.Get(factorPath+"?next=%2Fadmin%3Fstatus%3Dfailed"), field, `name="back" value="/admin/factor?next=%2Fadmin%3Fstatus%3Dfailed"`)
	lacks(t, b.Get(factorPath+"?next=https://evil.example/"), "evil")
	contains(t, b.Post(factorPath, url.Values{"do": {"begin"}, "password": {"wrong"}, "next": {next}}), field)
	begun := b.Post(factorPath, url.Values{"do": {"begin"}, "password": {consoletest.Password}, "next": {next}})
	contains(t, begun, field)
	kept := consoletest.Between(t, begun.Body.String(), `name="kept" value="`, `"`)
	contains(t, b.Post(factorPath, url.Values{"do": {"confirm"}, "kept": {kept}, "code": {"000000"}, "next": {next}}), field)
	done := r.NewDevice(consoletest.Between(t, begun.Body.String(), `data-whole="`, `"`))
	rec := b.Post(factorPath, url.Values{"do": {"confirm"}, "kept": {kept}, "code": {done.Code()}, "next": {next}})
	contains(t, want(t, rec, http.StatusOK), `<a class="act" href="/admin?status=failed">Continue</a>`)
	want(t, b.Post(factorPath, url.Values{"do": {"remove"}, "code": {done.Next()}}), http.StatusOK)
	want(t, b.Get("/v1/admin/sends"), http.StatusUnauthorized)
	want(t, b.Post("/admin/search", url.Values{"q": {"ana@example.com"}}), http.StatusSeeOther)
	contains(t, b.Get(factorPath), "requires a second factor from everyone")
	d := r.setUp(b, consoletest.Password)
	want(t, b.Get("/admin"), http.StatusOK)
	want(t, b.Post(factorPath, url.Values{"do": {"remove"}, "code": {d.Next()}}), http.StatusOK)
	want(t, b.Get("/admin"), http.StatusSeeOther)
	want(t, r.Browser().Get("/v1/admin/sends", "Authorization", "Bearer "+consoletest.Token), http.StatusOK)

	r2, server := newRigWithProvider(t, func(c *Config) { c.DemandFactor = true })
	consoletest.SetIdentity(server, "bo", "support")
	in := r2.Browser()
	consoletest.LeadsTo(t, in.ByProvider(""))
	want(t, in.Get("/admin"), http.StatusOK) // after a login through the provider, no factor is demanded
	contains(t, in.Get(factorPath), "asks for its own")
	want(t, in.Post(factorPath, url.Values{"do": {"begin"}, "password": {consoletest.Password}}), http.StatusForbidden)
}

// Each wrong password for a second factor counts as an attempt to log in.
func TestBeginningAFactorIsLimited(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	begin := url.Values{"do": {"begin"}, "password": {"wrong"}}
	for range 10 {
		want(t, b.Post(factorPath, begin), http.StatusUnauthorized)
	}
	rec := want(t, b.Post(factorPath, begin), http.StatusTooManyRequests)
	contains(t, rec, "15 min")
	servertest.Same(t, "Retry-After", rec.Header().Get("Retry-After"), "900")
}

type failingLimiter struct{ limiter }

func (failingLimiter) TakeOrLocal(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{}, fault.Unavailable
}

// An attempt that could not be counted is refused, even though the password and the code are right.
func TestLoginWithoutTheLimiter(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	d := r.setUp(b, consoletest.Password)
	half := r.loggedInWithoutCode()
	r.Handler = r.replica(quiet(), func(c *Config) { c.Limiter = failingLimiter{c.Limiter} })
	b.Handler, half.Handler = r.Handler, r.Handler
	for _, answer := range []*httptest.ResponseRecorder{
		r.Browser().Login(consoletest.Password), giveCode(half, d.Next()),
		b.Post(factorPath, url.Values{"do": {"begin"}, "password": {consoletest.Password}}),
	} {
		contains(t, want(t, answer, http.StatusServiceUnavailable), "Tries cannot be counted")
		servertest.Same(t, "Retry-After", answer.Header().Get("Retry-After"), "2")
	}
}

func TestSecondFactorOfALostDevice(t *testing.T) {
	r := newRig(t)
	owner, mei := r.LoggedIn(), r.As("operator")
	d := r.setUp(mei, "the-operator's password")
	half := r.Browser()
	want(t, half.LoginAs("the-operator", "the-operator's password"), http.StatusSeeOther)
	want(t, half.Get("/admin"), http.StatusSeeOther)
	want(t, mei.Post("/admin/accounts", account("factor", "the-operator", "", "I want to")), http.StatusForbidden)
	want(t, owner.Post("/admin/accounts", account("factor", "the-operator", "", "")), http.StatusUnprocessableEntity)
	contains(t, owner.Get("/admin/accounts"), "· second factor", "Remove the second factor")
	want(t, owner.Post("/admin/accounts", account("factor", "the-operator", "", "lost it")), http.StatusOK)
	lacks(t, owner.Get("/admin/accounts"), "· second factor", "Remove the second factor")
	contains(t, owner.Post("/admin/accounts", account("factor", "the-operator", "", "again")), "no second factor")
	want(t, half.Get("/admin"), http.StatusOK)
	want(t, giveCode(half, d.Next()), http.StatusSeeOther)
	r.WantActs(
		consoletest.Act{Who: "test", What: "account.add", Outcome: "done"},
		consoletest.Act{Who: "the-operator", What: "factor.add", Outcome: "done"},
		consoletest.Act{Who: "the-operator", What: "login.password", Outcome: "done"},
		consoletest.Act{Who: "admin", What: "account.factor", Outcome: "done", Reason: "lost it"})
	r.Clock.Add(time.Second)
	// After a change of the second factor, sessions that passed the old one must pass the new one.
	fresh := r.setUp(half, "the-operator's password")
	redirects(t, mei.Get("/admin"), codePath)
	want(t, giveCode(mei, d.Next()), http.StatusUnauthorized)
	want(t, giveCode(mei, fresh.Code()), http.StatusSeeOther)
}

// vanishingAccountStore is a store that finds no account once gone is true.
type vanishingAccountStore struct {
	accountStore
	gone *bool
}

func (v vanishingAccountStore) Account(ctx context.Context, name string) (store.Account, error) {
	if *v.gone {
		return store.Account{}, fault.NotFound
	}
	return v.accountStore.Account(ctx, name)
}

// If an account disappears while its code is checked, no session begins.
func TestNoSessionForAnAccountThatIsGone(t *testing.T) {
	gone := false
	r := newRig(t, func(c *Config) { c.Accounts = vanishingAccountStore{c.Accounts, &gone} })
	d := r.setUp(r.As("operator"), "the-operator's password")
	half := r.Browser()
	want(t, half.LoginAs("the-operator", "the-operator's password"), http.StatusSeeOther)
	r.Clock.Add(time.Minute)
	r.Store.SetFault(func(method string) sqlitetest.Fault {
		gone = gone || method == "TakeTOTPStep"
		if method == "BeginSession" {
			t.Error("a session began")
		}
		return sqlitetest.None
	})
	redirects(t, giveCode(half, d.Code()), "/admin/overview")
	redirects(t, half.Get("/admin/overview"), "/admin/login?next=%2Fadmin%2Foverview")
	servertest.Same(t, "the account is gone", gone, true)
}

// The secret is sealed for its account. Each login seals it again with the first key of the ring.
func TestSecondFactorSecretIsSealed(t *testing.T) {
	r := newRig(t)
	d := r.setUp(r.LoggedIn(), consoletest.Password)
	f, err := r.Store.SecondFactor(t.Context(), "admin")
	r.Must(err)
	if strings.Contains(string(f.Sealed), d.Secret) {
		t.Error("in the clear")
	}
	if _, err := r.Ring().Open(SecondFactorSealLabel, f.Sealed, []byte("mei")); err == nil {
		t.Error("opens for another account")
	}
	half := r.loggedInWithoutCode()
	half.Handler = r.replica(quiet(), func(c *Config) { c.Ring = consoletest.Ring(t) })
	want(t, giveCode(half, d.Next()), http.StatusServiceUnavailable)
	want(t, giveCode(r.loggedInWithoutCode(), d.Next()), http.StatusSeeOther)
	g, err := r.Store.SecondFactor(t.Context(), "admin")
	r.Must(err)
	if string(g.Sealed) == string(f.Sealed) {
		t.Error("not sealed anew")
	}
	if _, err := r.Ring().Open(SecondFactorSealLabel, g.Sealed, []byte("admin")); err != nil {
		t.Error(err)
	}
}
