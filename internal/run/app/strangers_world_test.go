package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/http/api"
	"sendcode/internal/http/server"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// world is the API of a service in virtual time, with the settings of a file and the apps shop and
// other. Strangers send their requests to the app shop.
type world struct {
	*vtest.Rig
	e      *echo.Echo
	row    refusal
	tokens map[string]string // by app: the token of the browser that the app knows
	spent  int               // how many requests the strangers have sent
}

// caller is a caller with an address. If it is a secret key, it sends the address as client_ip.
type caller struct {
	app, kind, ip, token string
	stranger             bool // the secret key does not say trust: known
	unnamed              bool // the secret key names no client_ip
}

const home = "198.51.100.7" // address of the honest callers

// honest are the callers for which the table says whether strangers can cause a refusal.
var honest = []caller{
	{app: "shop", kind: "secret", ip: home},
	{app: "shop", kind: "public", ip: home},
	{app: "other", kind: "secret", ip: home},
	{app: "other", kind: "public", ip: home},
}

// nth returns the nth stranger: a browser at an address of its own.
func nth(n int) caller {
	return caller{app: "shop", kind: "public", ip: fmt.Sprintf("10.%d.%d.1", n/250%250, n%250)}
}

// neighbor is a stranger's browser at the address of the honest callers.
var neighbor = caller{app: "shop", kind: "public", ip: home}

// keyForStranger is a secret key's request for a stranger.
var keyForStranger = caller{app: "shop", kind: "secret", ip: home, stranger: true}

// unnamed is like keyForStranger, but without client_ip.
var unnamed = caller{app: "shop", kind: "secret", ip: home, stranger: true, unnamed: true}

func keyOf(app, kind string) string { return kind + " key of " + app }

// appsOfTests returns the settings of the apps, with their keys.
func appsOfTests() string {
	lines := "apps:\n"
	for _, app := range []string{"shop", "other"} {
		lines += fmt.Sprintf("  - {name: %s, origins: [\"https://%[1]s.example\"], keys: [", app)
		for _, kind := range []string{"secret", "public"} {
			lines += fmt.Sprintf("{id: %s, kind: %[1]s, sha256: %x}, ", kind, sha256.Sum256([]byte(keyOf(app, kind))))
		}
		lines += "]}\n"
	}
	return lines
}

// inWorld runs the test of a row in a new world, in which both apps know a browser. No rule counts
// the earlier sends of that browser, unless the row has a tick: then inWorld does not wait until
// the sends are old, and the row needs a roomy policy.
func inWorld(t *testing.T, row refusal, test func(w *world)) {
	t.Helper()
	cfg := loadConfig(t, appsOfTests()+row.file, "CARRIER_TOKEN=token")
	settings := func(s *vtest.Settings) {
		s.Set, s.Vault.Folding, s.Tick, s.Watch = cfg.PolicySet(time.Now()), cfg.Folding(),
			cmp.Or(row.tick, 10*time.Minute), (&App{cfg: cfg}).prefixWatch()
		if row.bounds != nil {
			row.bounds(&s.Set)
		}
	}
	vtest.InBubbleIdle(t, settings, func(r *vtest.Rig) {
		defer r.Quit() // runs after Fatal, too
		quiet := slog.New(slog.DiscardHandler)
		if len(cfg.SMS.Carriers) > 0 {
			r.Svc = r.ReplicaOn(r.Store, r.MailServer, pricedCarriers(r, cfg))
		}
		r.Start()
		requests := server.NewRequestLimiter(cfg.RequestsPerMinute, quiet, func() {}, time.Now)
		w := &world{Rig: r, e: r.Svc.Routes(apiKeys(cfg), api.Services{Requests: requests}), row: row, tokens: map[string]string{}}
		for _, app := range []string{"shop", "other"} {
			first := w.send(caller{app: app, kind: "public", ip: home}, w.person(), "")
			checked := w.check(caller{app: app, kind: "public", ip: home}, first.ID, w.newestCode(w.person()))
			if w.tokens[app] = checked.Known; !checked.Valid || checked.Known == "" {
				t.Fatalf("no known browser: %+v, %+v", first, checked)
			}
		}
		if row.tick == 0 {
			w.Sleep(25 * time.Hour)
		}
		test(w)
	})
}

// pricedCarriers returns the rig's carrier with the prices of the file's only carrier and the spend
// caps of the file.
func pricedCarriers(r *vtest.Rig, cfg config.Config) outbox.Carrier {
	var caps []outbox.SpendCap
	for _, c := range cfg.SMS.Spend {
		caps = append(caps, outbox.SpendCap(c))
	}
	c := cfg.SMS.Carriers[0]
	return sms.NewCarriers([]sms.Route{{Carrier: rigCarrier{r.Carrier}, Prices: c.Prices, DefaultPrice: c.Prices["default"]}},
		sms.CarriersOptions{Reserve: outbox.NewBudget(r.Store, caps, slog.New(slog.DiscardHandler), func(string) {}).Reserve})
}

// rigCarrier is the rig's carrier, but it has no route to numbers that end with noRoute, except
// vtest.Mobile.
type rigCarrier struct{ *vtest.Carrier }

const noRoute = "9"

func (rigCarrier) Name() string { return "fake" }

func (c rigCarrier) Send(ctx context.Context, m sms.Message) (delivery.Result, *delivery.Error) {
	if strings.HasSuffix(m.To, noRoute) && m.To != vtest.Mobile {
		return delivery.Result{}, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageAnswer, About: delivery.AboutRecipient}
	}
	receipt, err := c.Carrier.Send(ctx, m)
	var fail *delivery.Error
	errors.As(err, &fail)
	return receipt, fail
}

// person returns the recipient of the honest callers, whom strangers attack.
func (w *world) person() string {
	if w.row.sms {
		return vtest.Mobile
	}
	return vtest.Ana
}

// other returns the nth other recipient. For text messages, it has the same country and prefix as
// the person.
func (w *world) other(n int) string {
	if w.row.sms {
		return vtest.Mobile[:len(vtest.Mobile)-4] + fmt.Sprintf("%04d", n)
	}
	return vtest.NthAddress(n)
}

// reply has the parts of an answer that a caller reads.
type reply struct {
	Code       int `json:"-"`
	ID, Type   string
	BlockedBy  string `json:"blocked_by"`
	Valid      bool
	Known      string
	Status     any                  // a word for a verification, a number for a problem
	CodeFormat struct{ Length int } `json:"code_format"`
}

// slug returns the last word of a problem's type, or "" if the answer is no problem.
func (r reply) slug() string { return r.Type[strings.LastIndex(r.Type, "/")+1:] }

// do sends a request. idempotency is its Idempotency-Key, or "".
func (w *world) do(c caller, method, path, idempotency string, body map[string]any) (a reply) {
	w.Helper()
	text, err := json.Marshal(body)
	w.NoError(err)
	r := httptest.NewRequest(method, path, strings.NewReader(string(text)))
	r.RemoteAddr = c.ip + ":4711"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+keyOf(c.app, c.kind))
	r.Header.Set("Accept-Language", "en")
	if c.kind == "public" {
		r.Header.Set("Origin", "https://"+c.app+".example")
	}
	if idempotency != "" {
		r.Header.Set("Idempotency-Key", idempotency)
	}
	recorded := httptest.NewRecorder()
	w.e.ServeHTTP(recorded, r)
	if recorded.Code >= http.StatusInternalServerError && recorded.Code != http.StatusServiceUnavailable {
		w.Fatalf("%s %s: %d %s", method, path, recorded.Code, recorded.Body)
	}
	w.NoError(json.Unmarshal(recorded.Body.Bytes(), &a))
	a.Code = recorded.Code
	return a
}

func (w *world) send(c caller, to, idempotency string) reply {
	w.Helper()
	body := map[string]any{"channel": string(recipient.Email), "to": to}
	if w.row.sms {
		body["channel"] = string(recipient.SMS)
	}
	if c.kind == "secret" && !c.unnamed {
		body["client_ip"] = c.ip
	}
	if c.kind == "secret" && !c.stranger {
		body["trust"] = "known"
	}
	if c.token != "" {
		body["known"] = []string{c.token}
	}
	a := w.do(c, http.MethodPost, "/v1/verifications", idempotency, body)
	w.Sleep(0) // lets the attempt end
	return a
}

func (w *world) check(c caller, id, code string) reply {
	w.Helper()
	body := map[string]any{"code": code}
	if c.kind == "secret" {
		body["client_ip"] = c.ip
	}
	return w.do(c, http.MethodPost, "/v1/verifications/"+id+"/check", "", body)
}

// newestCode returns the code of the last message to a recipient.
func (w *world) newestCode(to string) (newest string) {
	for _, m := range w.Carrier.Accepted() {
		if m.To == to {
			newest = m.Code
		}
	}
	for _, m := range w.MailServer.Attempts() {
		if m.To == to {
			newest = vtest.CodeIn(m)
		}
	}
	return newest
}

// refusedBy says why a send was refused: the problem, and the scope of the rule or the reason of
// the failure. It returns "" if the mail server or the carrier accepted the message, and the send's
// status if the message still waits.
func (w *world) refusedBy(a reply) string {
	w.Helper()
	switch slug := a.slug(); {
	case slug == server.QuotaExceeded.Slug:
		return slug + "/" + w.scopeOf(a.BlockedBy)
	case slug != "":
		return slug
	}
	_, sent, _, err := w.Store.Verification(w.Context(), a.ID)
	w.NoError(err)
	switch sent.Status {
	case store.Sent:
		return ""
	case store.Failed:
		return server.DeliveryFailed.Slug + "/" + sent.Reason
	}
	return string(sent.Status)
}

func (w *world) scopeOf(rule string) string {
	set := w.Svc.Policies()
	p, _ := set.Purpose("")
	for _, ch := range []recipient.Channel{recipient.Email, recipient.SMS} {
		for _, r := range set.RulesFor(p, policy.Request{App: "shop", Channel: ch, Class: store.StrangerClass, NamesClient: true}) {
			if r.Name == rule {
				return string(r.Scope)
			}
		}
	}
	return rule // policy.CarrierName
}

// refusalOf makes an honest caller ask for a code and enter it. It returns the refusal, or "" if
// there was none.
func (w *world) refusalOf(c caller) string {
	w.Helper()
	if c.kind == "public" {
		c.token = w.tokens[c.app]
	}
	sent := w.send(c, w.person(), w.row.key)
	by := w.refusedBy(sent)
	for began := time.Now(); store.Status(by).InFlight() && time.Since(began) < w.row.waits; by = w.refusedBy(sent) {
		w.Sleep(10 * time.Second)
	}
	if by != "" {
		return by
	}
	checked := w.check(c, sent.ID, w.newestCode(w.person()))
	if by := checked.slug(); by != "" {
		return by
	}
	if !checked.Valid {
		return fmt.Sprint("a check, ", checked.Status)
	}
	return ""
}

// toPerson sends to the person, as the nth stranger.
func toPerson(w *world, n int) reply { return w.send(nth(n), w.person(), "") }

// toOthers sends to the nth other recipient, as the nth stranger.
func toOthers(w *world, n int) reply { return w.send(nth(n), w.other(n), "") }

// untilRefused returns a function that calls sendUntilRefused with ask.
func untilRefused(ask func(w *world, n int) reply) func(*world) {
	return func(w *world) { w.sendUntilRefused(ask) }
}

// untilFailuresRefuse is untilRefused with toPerson, while the mail server gives this answer.
func untilFailuresRefuse(answer func(context.Context) error) func(*world) {
	return func(w *world) {
		w.sendUntilRefused(func(w *world, n int) reply {
			w.MailServer.Answer(answer)
			return toPerson(w, n)
		})
		w.MailServer.Accept()
	}
}

// sendUntilRefused sends requests of strangers until the tested rule refuses one. It calls ask with
// the number of the request.
func (w *world) sendUntilRefused(ask func(w *world, n int) reply) {
	w.Helper()
	for n := range 10_000 {
		a := ask(w, n)
		switch got := w.refusedBy(a); {
		case strings.HasPrefix(w.row.by+"/", got+"/"): // the row of a spend cap names its scope too
			w.spent += n
			return
		case got != "" && !strings.HasPrefix(got, server.DeliveryFailed.Slug) && got != string(store.Queued) &&
			got != string(store.Sending) && got != server.NotFound.Slug:
			w.Fatalf("stranger %d: %s, want %s: %+v", n, got, w.row.by, a)
		}
	}
	w.Fatalf("strangers are never refused by %s", w.row.by)
}

// guess enters up to n wrong codes, for verifications that c begins for the recipient to. It stops
// at the first refusal, and returns how many codes were compared.
func (w *world) guess(c caller, to string, n int) (compared int) {
	w.Helper()
	for compared < n {
		own := w.send(c, to, "")
		if by := w.refusedBy(own); by != "" {
			return compared
		}
		wrong := w.WrongCode(w.newestCode(to))
		for range verification.MaxAttempts {
			if compared == n {
				return compared
			}
			if a := w.check(c, own.ID, wrong); a.slug() != "" {
				return compared
			}
			compared++
			w.spent++
		}
	}
	return compared
}
