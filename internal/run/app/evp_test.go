package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"sendcode/internal/http/evp/evptest"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

var nonces = regexp.MustCompile(`name="evt" autocomplete="email-verification-token" nonce="([^"]+)"`)

// signUp sends the page's form with a token that the provider has issued, and returns the next page.
func signUp(t *testing.T, provider *evptest.Issuer, person *pagetest.Visitor) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	apptest.Must(t, err)
	page, err := person.Get("?return_url=https://shop.example/in")
	apptest.Must(t, err)
	nonce := nonces.FindStringSubmatch(page)
	if nonce == nil {
		t.Fatal("no field for a token: ", page)
	}
	token := evptest.Bind(provider.EVT(jose.JSONWebKey{Key: &key.PublicKey}, nil), key, "https://codes.example", nonce[1], nil)
	next, err := person.Submit(page, "send", "to", evptest.Address, "evt", token)
	apptest.Must(t, err)
	return next
}

// A person whose browser proves the address is approved without a mail, and whatever tells of it
// says so. The same cookie again gets a code: the proof has spent no place. Issuers are called through
// the guard, which allows no private address, but for the test's.
func TestABrowserProvesAnAddress(t *testing.T) {
	provider, hook := evptest.New(t), apptest.NewReceiver(t)
	s := apptest.Embedded(t)
	s.Env["SENDCODE_WEBHOOK_SECRETS"] = "default:" + apptest.HookSecrets[0]
	s.Write(`
apps: [{name: default, evp: on, return_urls: ["https://shop.example"], webhook: {url: "` + hook.URL + `"}}]
webhook_networks: [127.0.0.0/8]
sms: {public_url: "https://codes.example"}
page: {channels: [email]}
`)
	a, err := s.New(s.Config())
	apptest.Must(t, err)
	issuers := a.Issuers()
	if _, err := issuers.Client.Get("https://127.0.0.1/.well-known/email-verification"); err == nil ||
		!strings.Contains(err.Error(), "the address is not allowed") {
		t.Error("an issuer is called without the guard: ", err)
	}
	issuers.Client, issuers.TXT = provider.Client(), provider.Resolver().LookupTXT
	s.Serve(a)
	person := pagetest.NewVisitor(s.Replicas[0].Base + "/")
	_, err = person.Get("")
	apptest.Must(t, err)
	before := person.Cookies()
	reference := regexp.MustCompile(`reference=([^"&]+)`).FindStringSubmatch(signUp(t, provider, person))
	if reference == nil {
		t.Fatal("not approved: ", s.Printed)
	}
	router := s.SpecRouter()
	conforms := func(method, path string, a apptest.Answer) {
		t.Helper()
		if err := apptest.Conforms(router, method, path, a); err != nil {
			t.Error(path, err)
		}
	}
	redeemed := s.Post("/v1/proofs/redeem", `{"reference":"`+reference[1]+`"}`)
	conforms("POST", "/v1/proofs/redeem", redeemed)
	var of struct {
		ID         string `json:"verification_id"`
		To, Method string
	}
	apptest.Must(t, json.Unmarshal(redeemed.Raw, &of))
	servertest.Same(t, "redeemed", of.To+" "+of.Method, evptest.Address+" evp")
	look := s.Look(of.ID)
	conforms("GET", "/v1/verifications/"+of.ID, look)
	servertest.Same(t, "the verification", look.State()+" "+look.Send.Status, "approved proven")
	if !strings.Contains(string(look.Raw), `"method":"evp"`) || !look.Quota.Allowed {
		t.Errorf("%s", look.Raw)
	}
	list := s.Get("/v1/admin/sends?status=proven", apptest.AsAdmin)
	conforms("GET", "/v1/admin/sends?status=proven", list)
	if !strings.Contains(string(list.Raw), of.ID) || !strings.Contains(string(list.Raw), `"provider":"`+evptest.Host) {
		t.Errorf("%s", list.Raw)
	}
	story := s.Get("/v1/admin/sends/"+look.Send.ID, apptest.AsAdmin)
	conforms("GET", "/v1/admin/sends/"+look.Send.ID, story)
	if told := s.AwaitTold(hook, 1)[0]; told.Type != "verification.approved" || !strings.Contains(string(told.Raw), `"method":"evp"`) {
		t.Errorf("%s", told.Raw)
	}
	servertest.Same(t, "mails", len(s.Mails()), 0)
	person.Keep(before)
	if next := signUp(t, provider, person); !strings.Contains(next, `data-kind="code"`) {
		t.Error("the nonce once more: ", next)
	}
	s.AwaitMail(evptest.Address, 1)
	if s.Logged(evptest.Address) {
		t.Error("the address was logged")
	}
}
