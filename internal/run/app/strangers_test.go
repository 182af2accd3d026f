package app

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/config"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// refusal is a row of SECURITY.md: what refuses a send, a read or a check, and whether strangers
// can cause the refusal for other callers.
type refusal struct {
	by                   string            // what refuses: the problem, and the scope, bound or reason
	text                 string            // what SECURITY.md says in place of by
	secretKey            bool              // strangers can cause the refusal for a secret key of the same app
	knownBrowser         bool              // they can cause it for a known browser of the same app
	otherAppsKey         bool              // they can cause it for a secret key of another app
	otherAppsBrowser     bool              // they can cause it for a known browser of another app
	price                string            // what causing it costs strangers; {n} is the number that the test measures
	left                 string            // if strangers can't cause it: why not, or what honest callers still have
	file                 string            // settings in addition to the apps
	bounds               func(*policy.Set) // lowers or lifts a bound that no setting changes
	sms                  bool              // the row is about text messages, otherwise about mails
	key                  string            // Idempotency-Key of the honest callers
	waits                time.Duration     // how long honest callers wait for their message
	admitsKeyForStranger bool              // a secret key without trust: known is not refused
	tick                 time.Duration     // time between two runs of a job; 0: ten minutes
	separateWorlds       bool              // each honest caller is tried in a separate world, since the first uses up the remaining places
	exhaust              func(w *world)    // strangers use up what they can; nil: see test
	test                 string            // the test that tries the row, as path and name, if TestWhatStrangersCause does not
}

// These policies are so roomy that only the rule of the row refuses.
const (
	roomyRules = "policies: {default: [{name: person, scope: recipient, limit: 200, window: 24h, reserve: 50}"
	roomy      = roomyRules + "]}"
	bound      = roomyRules + ", {name: wide, scope: %s, limit: 10, window: 1h}]}"
)

const carrier = `
sms:
  countries: [DE]
  carriers: [{name: twilio, type: twilio, account: AC00000000000000000000000000000001, secret_env: CARRIER_TOKEN, service: MG00000000000000000000000000000002, prices: {default: 1}}]
`

// whatRefuses has all refusals that depend on the actions of other callers. TestEveryRefusalHasARow
// compares it with the lists in the code.
var whatRefuses = []refusal{
	{
		by: "quota-exceeded/recipient", text: "a recipient's rule without `reserve`, such as `minute`", secretKey: true, knownBrowser: true, separateWorlds: true,
		price: "{n} send to the recipient, until the rule's window ends", exhaust: untilRefused(toPerson),
	},
	{
		by: "quota-exceeded/recipient", text: "a recipient's rule with `reserve`", separateWorlds: true,
		left: "after {n} sends of strangers to the recipient the reserve is left: one code an hour and two a day",
		exhaust: func(w *world) {
			for by := ""; by != "hour"; w.Sleep(time.Minute) {
				a := toPerson(w, w.spent)
				if by = a.BlockedBy; by == "" {
					w.spent++
				}
			}
		},
	},
	{
		by: "quota-exceeded/ip", text: "`client`, built in", knownBrowser: true, file: roomy,
		price:   "{n} sends from its own address in an hour",
		exhaust: untilRefused(func(w *world, n int) reply { return w.send(neighbor, w.other(n), "") }),
	},
	{
		by: "quota-exceeded/ip", text: "a policy's rule on `ip` without `reserve`", secretKey: true, knownBrowser: true,
		file: fmt.Sprintf(bound, "ip"), price: "{n} sends, its limit, from the address that the secret key names as `client_ip`",
		exhaust: untilRefused(func(w *world, n int) reply { return w.send(neighbor, w.other(n), "") }),
	},
	{
		by: "quota-exceeded/network", text: "`network`, built in", knownBrowser: true, file: roomy + "\nrequests_per_minute: 0\n",
		price:   "{n} sends from its own /24 or /48 in an hour",
		exhaust: untilRefused(func(w *world, n int) reply { return w.send(inNetwork(n%20), w.other(n), "") }),
	},
	{
		by: "quota-exceeded/network", text: "a policy's rule on `network` without `reserve`", secretKey: true, knownBrowser: true,
		file: fmt.Sprintf(bound, "network"), price: "{n} sends, its limit, from the /24 or /48 of `client_ip`",
		exhaust: untilRefused(func(w *world, n int) reply { return w.send(inNetwork(n), w.other(n), "") }),
	},
	{
		by: "quota-exceeded/unnamed", text: "`unnamed`, built in", admitsKeyForStranger: true, file: roomy,
		left:    "it counts only a back end's strangers without `client_ip`: {n} sends in an hour stop them, in their app alone",
		exhaust: untilRefused(func(w *world, n int) reply { return w.send(unnamed, w.other(n), "") }),
	},
	wideRule("app", false), wideRule("purpose", false), wideRule("country", false), wideRule("prefix", false),
	wideRule("global", true),
	{
		by: "quota-exceeded/everything", text: "`breaker`", knownBrowser: true, otherAppsBrowser: true,
		file: roomy + "\nbreaker: {limit: 10, window: 1h}\n", price: "{n} of 10 sends: its limit less its `reserve`",
		exhaust: untilRefused(toOthers),
	},
	{
		by: "human-check-failed/rejected", text: "an app's questions to a vendor, used up by garbage tokens",
		left: "until the hour ends, work replaces the vendor's token; a network may cause 30 questions",
		test: "internal/verify/humancheck/vendors/vendors_test.go TestQuestionsAreBounded",
	},
	{
		by: "human-check", text: "a [human check](docs/policies.md#human-checks), in an app that asks", knownBrowser: true,
		price: "half of what strangers may send by a rule that recipients share; a pass admits",
		test:  "internal/verify/verification/human_test.go TestAPassAdmitsBeyondTheHalf",
	},
	{
		by: "human-check", text: "a human check, by [the watch on conversion](docs/policies.md#the-watch-on-conversion)", admitsKeyForStranger: true, file: roomy,
		left: "after {n} sends whose codes nobody enters, strangers' browsers do work before they get a code; a back end only where `human_check` is configured",
		exhaust: func(w *world) {
			for ; w.spent < 1000; w.spent++ {
				w.send(nth(w.spent), w.other(w.spent), "")
			}
			w.Sleep(21 * time.Minute) // until the job counts codes that are ten minutes old
			w.Want("a stranger's browser", w.refusedBy(w.send(nth(w.spent), w.other(w.spent), "")), "human-check")
		},
	},
	{
		by: "quota-exceeded/failures", text: "`failures`", file: roomy, bounds: func(s *policy.Set) { s.SuppressFor = 0 },
		left: "strangers' sends to a bad address can fill only half of it, {n}", exhaust: untilFailuresRefuse(vtest.NoMailbox),
	},
	{
		by: "quota-exceeded/backoff", text: "`backoff`", file: roomy,
		left:    "each class is counted separately: strangers stop after {n} sends that fail for other reasons than the address",
		exhaust: untilFailuresRefuse(vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.7.1")),
	},
	{
		by: "quota-exceeded/carrier", text: "a carrier's hold on a number", secretKey: true, knownBrowser: true, otherAppsKey: true, otherAppsBrowser: true,
		sms: true, file: roomy + carrier,
		price: "as many text messages as the carrier takes for the number; impossible if these are more than strangers may send",
		exhaust: func(w *world) {
			w.Carrier.Fail(&delivery.Error{Class: delivery.Rejected, Reason: sms.ReasonCarrierLimit, Hold: time.Hour})
			w.sendUntilRefused(toPerson)
			w.Carrier.Fail(nil)
		},
	},
	{
		by: "quota-exceeded/checks", text: "an app's failed checks", admitsKeyForStranger: true, file: roomy,
		bounds: func(s *policy.Set) { s.Checks.App.Limit = 50 },
		left:   "after 10,000 wrong codes for an app in an hour all but `trust: known` get codes of 8 characters; nothing is refused",
		exhaust: func(w *world) {
			for n := range 10 {
				w.guess(nth(n), w.other(n), 5)
			}
			w.Sleep(11 * time.Minute) // the job has run
			w.Want("characters of a browser's next code", w.send(nth(99), w.other(99), "").CodeFormat.Length, 8)
		},
	},

	{
		by: "too-many-checks/FailedCheckLimit", text: "20 failed checks of a recipient's codes in a day",
		file: roomy, left: "each class is counted separately: strangers stop after {n} wrong codes",
		exhaust: func(w *world) { w.guess(nth(0), w.person(), 100) },
	},
	{
		by: "too-many-checks/ConsecutiveFailedCheckLimit", text: "100 failed checks of a recipient's codes in a row", secretKey: true,
		knownBrowser: true, file: roomy, price: "{n} wrong codes, 20 a day, with no right code between them",
		exhaust: func(w *world) {
			for d := range 5 {
				w.guess(nth(d), w.person(), 100)
				w.Sleep(24 * time.Hour)
			}
		},
	},
	{
		by: "too-many-checks/Network", text: "`failed_checks_per_hour`", secretKey: true, knownBrowser: true, file: roomy,
		price: "{n} wrong codes from its own address, or that of `client_ip`, in an hour",
		exhaust: func(w *world) {
			for n := range 30 {
				w.guess(neighbor, w.other(n), 5)
			}
		},
	},
	{
		by: "too-many-checks/WideNetwork", text: "`failed_checks_per_hour`, for a wide network", secretKey: true, knownBrowser: true, file: roomy,
		price: "{n} wrong codes from its own /24 or /48, or that of `client_ip`, in an hour",
		exhaust: func(w *world) {
			for n := range 100 {
				w.guess(inNetwork(n%20), w.other(n), 5)
			}
		},
	},
	{
		by: "too-many-checks/App", text: "an app's bound on failed checks, 10,000 an hour", admitsKeyForStranger: true,
		left: "it only raises an alert", file: roomy, bounds: func(s *policy.Set) { s.Checks.App.Limit = 5 },
		exhaust: func(w *world) {
			w.guess(nth(0), w.other(0), 5)
			w.guess(nth(1), w.other(1), 5)
		},
	},
	{
		by: "too-many-requests", text: "`requests_per_minute`", admitsKeyForStranger: true, knownBrowser: true, otherAppsBrowser: true, file: roomy,
		price:   "{n} requests from its own address in a minute",
		exhaust: untilRefused(func(w *world, _ int) reply { return w.do(neighbor, "GET", "/v1/verifications/unknown", "", nil) }),
	},
	{
		by: "idempotency-key-reused", text: "an `Idempotency-Key` that can be guessed", admitsKeyForStranger: true, separateWorlds: true, knownBrowser: true, file: roomy,
		key: "order-2026-11-23-01", price: "a guess from its own address, before it asks",
		exhaust: func(w *world) { w.send(neighbor, w.other(0), "order-2026-11-23-01") },
	},
	{
		by: "conflict", text: "the same, while the guess is worked on", knownBrowser: true,
		price: "a guess from its own address, at the same moment",
		test:  "internal/http/api/public_test.go TestIdempotencyKeyThatIsGuessedGetsNothing",
	},
	{
		by: "unavailable/" + overloaded, text: "a place among the requests for one recipient",
		left: "strangers have half of the places", test: "internal/verify/verification/reserve_test.go TestStrangersDelayNoOthers",
	},
	{
		by: "unavailable/" + overloaded, text: "a place among all requests, in an overload",
		left: "strangers have half of the places", test: "internal/limit/admission/admission_test.go TestLimiterGivesStrangersHalf",
	},
	{
		by: "unavailable/", text: "more connections than the machines carry", secretKey: true, knownBrowser: true, otherAppsKey: true, otherAppsBrowser: true,
		price: "a flood from many networks; each is bounded",
		test:  "internal/http/server/requests_test.go TestRequestLimiterBoundsANetwork",
	},
	{
		by: "unavailable/" + bodies, text: "room for large bodies", secretKey: true, knownBrowser: true, otherAppsKey: true, otherAppsBrowser: true,
		price: "large bodies that never end, from two networks: each may use half of the room",
		test:  "internal/http/server/bodies_test.go TestBodiesInMemoryAreBounded",
	},
	{
		by: "unavailable/" + tooLate, text: "a message that would go out too late, because strangers ask for more than a channel takes",
		left: "strangers' messages wait in a queue of their own, and their networks take turns",
		test: "internal/verify/verification/late_test.go TestAStrangersBacklogRefusesNoOthers",
	},
	{
		by: "unavailable/" + tooLate, text: "the same, because the mail server is slow for recipients that strangers chose",
		left: "at every stage, a mail that takes longer than usual gives way to others that wait, and no longer counts in what they wait for",
		test: "internal/deliver/outbox/held_test.go TestHeldRecipientsDelayNoOthers",
	},

	{
		by: "delivery-failed/suppressed", text: "`suppressed`", secretKey: true, knownBrowser: true, file: roomy,
		price: "{n} message that bounces, that the person reports as spam, or answers with STOP. A [burst](docs/policies.md#bursts-of-suppressions) " +
			`of strangers does not count, and lifts no others' suppressions ([test](internal/store/storetest/contract_suppressions.go "burstIsNotBelieved"))`,
		exhaust: untilRefused(func(w *world, n int) reply {
			a := toPerson(w, n)
			_, sent, _, err := w.Store.Verification(w.Context(), a.ID)
			w.NoError(err)
			_, err = w.Svc.ProviderEvents.Ingest(w.Context(), "postmark",
				feedback.Event{Meaning: feedback.Complained, Mapped: true, Send: sent.ID, At: time.Now()})
			w.NoError(err)
			return a
		}),
	},
	{
		by: "delivery-failed/opted_out", text: "`opted_out`", separateWorlds: true, secretKey: true, knownBrowser: true, otherAppsKey: true, otherAppsBrowser: true,
		sms: true, file: roomy + carrier,
		price: "{n} text message that the person answers with STOP; the carrier stops all messages of its sender",
		exhaust: func(w *world) {
			w.send(nth(0), w.person(), "")
			w.spent++
			w.Carrier.Fail(&delivery.Error{Class: delivery.Rejected, Reason: sms.ReasonOptedOut})
		},
	},
	{
		by: "delivery-failed/paused", text: "`paused`, by the watch on pumping", sms: true, file: roomy + carrier,
		left: "each class is counted separately: by the defaults of `sms.watch` strangers stop after {n} text messages whose codes are not entered",
		exhaust: func(w *world) {
			for range 24 {
				w.send(nth(w.spent), w.other(w.spent), "")
				w.spent++
			}
			w.Sleep(21 * time.Minute) // until the jobs count codes that have expired
			w.Want("a stranger's message", w.refusedBy(w.send(nth(30), w.other(30), "")), "delivery-failed/paused")
		},
	},
	spendCap("global", true), spendCap("country", true), spendCap("app", false),
	{
		by: "delivery-failed/carrier_limit", text: "`carrier_limit`", secretKey: true, knownBrowser: true, otherAppsKey: true, otherAppsBrowser: true,
		sms: true, file: roomy + carrier, price: "as many text messages as the carrier takes for the number",
		exhaust: func(w *world) {
			w.send(nth(0), w.person(), "")
			w.Carrier.Fail(&delivery.Error{Class: delivery.Rejected, Reason: sms.ReasonCarrierLimit})
		},
	},
	{
		by: "delivery-failed/rejected", text: "`rejected`, for what the mail server thinks of us", secretKey: true, knownBrowser: true,
		otherAppsKey: true, otherAppsBrowser: true, file: roomy, price: "as many messages to bad addresses, from many networks, as the mail server bears",
		exhaust: func(w *world) {
			for n := range 20 {
				w.MailServer.Answer(vtest.NoMailbox)
				w.send(nth(n), w.other(n), "")
			}
			for range 5 { // the mail server refuses the honest callers' mails
				w.MailServer.Answer(vtest.FailWith(delivery.Rejected, "rcpt", 550, "5.7.1"))
			}
		},
	},
	{
		by: "delivery-failed/expired", text: "`expired`: the queue of a channel is longer than a code lives",
		file: roomy, waits: 10 * time.Minute, separateWorlds: true, admitsKeyForStranger: true,
		left: "strangers' messages wait in a queue of their own, and get half of the attempts. What takes longer than usual gives way to others that wait; " +
			"{n} mails to recipients whose servers take a minute were tried",
		exhaust: func(w *world) {
			w.MailServer.Delay, w.MailServer.Slow = time.Minute, "-chosen.example"
			for ; w.spent < 16*12; w.spent++ {
				w.send(nth(w.spent), fmt.Sprintf("x@n%d-chosen.example", w.spent), "")
			}
		},
	},
	{
		by: "delivery-failed/expired", text: "`expired`: a carrier is set aside", sms: true, file: roomy + carrier, tick: time.Second,
		admitsKeyForStranger: true,
		left:                 "if a stranger asked, a temporary answer that may be about the number is not held against the carrier; {n} such numbers were tried",
		exhaust: func(w *world) {
			for ; w.spent < 40; w.spent++ {
				w.send(nth(w.spent), fmt.Sprintf("+49%d5550%03d9", 160+w.spent%20, w.spent), "")
			}
		},
	},
	{
		by: "delivery-failed/expired", text: "`expired`: a mail server is set aside, or has fewer connections",
		left: "what it answers from `RCPT` on for a stranger's recipient, even silence, is held against the recipient",
		test: "internal/deliver/delivery/smtp/strangers_test.go TestPoolIgnoresFaultsOfStrangersRecipients",
	},
	{
		by: "check/max_attempts_reached", text: "five tries of a code", knownBrowser: true, file: roomy,
		price: "the ID of its verification, 128 random bits",
		test:  "internal/verify/verification/resend_test.go TestABrowserReachesNothingOfABackEnd",
	},
	{
		by: "check/canceled", text: "a code that was canceled", knownBrowser: true, price: "the ID of its verification, 128 random bits",
		test: "internal/verify/verification/resend_test.go TestABrowserReachesNothingOfABackEnd",
	},
}

// inNetwork returns the nth stranger in the network of the honest callers.
func inNetwork(n int) caller {
	return caller{app: "shop", kind: "public", ip: fmt.Sprintf("198.51.100.%d", 100+n)}
}

// wideRule returns the row of a rule that counts many callers together. If shared is true, it
// counts all apps together.
func wideRule(scope string, shared bool) refusal {
	area := scope == "country" || scope == "prefix"
	file := fmt.Sprintf(bound, scope)
	if area {
		file += carrier
	}
	return refusal{
		by: "quota-exceeded/" + scope, text: "a rule on `" + scope + "`", knownBrowser: true, otherAppsBrowser: shared, file: file, sms: area,
		price: "{n} of 10 sends: its limit less its `reserve`", exhaust: untilRefused(toOthers),
	}
}

// spendCap returns the row of a spend cap. If shared is true, the cap is for all apps together.
func spendCap(scope string, shared bool) refusal {
	return refusal{
		by: "delivery-failed/spend_cap/" + scope, text: "`spend` with the scope `" + scope + "`", knownBrowser: true, otherAppsBrowser: shared,
		sms: true, file: roomy + carrier + "  spend: [{scope: " + scope + ", per: day, limit: 10}]\n",
		price: "{n} of 10 messages: its limit less its `reserve`", exhaust: untilRefused(toOthers),
	}
}

// These are texts of answers with a 503.
const (
	bodies     = "Too many large bodies are being read. Nothing was done."
	overloaded = "More requests came than can be served in time."
	tooLate    = "Messages of this channel go out slowly just now: the code would arrive too late."
)

// reasons is for kinds of refusals that have several reasons. For each kind it has the files below
// internal that contain the reasons, and the pattern that finds them.
var reasons = map[string][2]string{
	"unavailable":        {"http/server/*.go", `unavailableProblem\("([^"]+)"`},
	"delivery-failed":    {"*/*.go */*/*.go", `\bReason[A-Z]\w+ += "(\w+)"`},
	"human-check-failed": {"verify/humancheck/*.go", `Reason += "(\w+)"`},
}

// ofTheRequest has the kinds of problems that no other caller can cause: they depend on the request
// itself or the settings, or are not about a send, a read or a check.
var ofTheRequest = []string{
	"malformed-json", "unknown-field", "bad-request", "unauthorized", "forbidden", "insufficient-scope", "secret-key-in-page",
	"not-found", "method-not-allowed", "too-large", "unsupported-media-type", "invalid-field", "internal",
	"human-check-failed/used", "human-check-failed/expired", "human-check-failed/other_host", "human-check-failed/rejected",
	"unavailable/No code is sent before ", "unavailable/The service stops, and this request's body had not arrived. Nothing was done.",
	"delivery-failed/template", "delivery-failed/unreadable", "delivery-failed/no_answer", "delivery-failed/internal",
	"delivery-failed/erased", "delivery-failed/blocked", "delivery-failed/ended", "delivery-failed/country_not_served",
	"delivery-failed/voip", "delivery-failed/disposable",
	// These concern proofs and administrators.
	"caller-checks", "checked-here", "key-of-other-code", "not-done", "proof-redeemed", "erased", "too-many-attempts",
}

// cause tries a row. Strangers use up what they can. Then each honest caller asks. Last, a secret
// key asks for a stranger, and must be refused as strangers are, unless the row admits it. cause
// returns the number of requests that the strangers spent.
func (r refusal) cause(t *testing.T) (spent int) {
	wants := []bool{r.secretKey, r.knownBrowser, r.otherAppsKey, r.otherAppsBrowser, !r.admitsKeyForStranger}
	callers := append(slices.Clone(honest), keyForStranger)
	ask := func(w *world, i int) {
		got, c := w.refusalOf(callers[i]), callers[i]
		if refused := got != "" && strings.HasPrefix(r.by, got); refused != wants[i] || !refused && got != "" {
			t.Errorf("%s, the %s key of the app %s after %d requests of strangers, itself for one %v: refused by %q, want %v",
				r.text, c.kind, c.app, w.spent, c.stranger, got, wants[i])
		}
	}
	for i := range callers {
		inWorld(t, r, func(w *world) {
			r.exhaust(w)
			spent = w.spent
			ask(w, i)
			for j := i + 1; j < len(callers) && !r.separateWorlds; j++ {
				ask(w, j)
			}
		})
		if !r.separateWorlds {
			break
		}
	}
	return spent
}

// Strangers can cause each refusal for secret keys, known browsers and other apps exactly as the
// table says, at the given price. The table in SECURITY.md is generated from whatRefuses. Run the
// test with -update after a change.
func TestWhatStrangersCause(t *testing.T) {
	spent := map[string]int{}
	for _, x := range whatRefuses {
		if x.exhaust == nil {
			spent[x.text] = 0
			continue
		}
		t.Run(x.by+" "+x.text, func(t *testing.T) { spent[x.text] = x.cause(t) })
	}
	if t.Failed() || len(spent) < len(whatRefuses) { // with -run, not all rows were tried
		return
	}
	const page = "../../../SECURITY.md"
	before, rest, found := strings.Cut(readText(t, page), "<!-- of: refusals -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end -->")
	if !found || !ended {
		t.Fatalf("%s has no table of refusals", page)
	}
	golden.File(t, page, before+"<!-- of: refusals -->\n"+refusalsTable(spent)+"<!-- end -->"+after)
}

// refusalsTable returns the table of SECURITY.md. It joins neighboring rows that say the same.
func refusalsTable(spent map[string]int) string {
	var table strings.Builder
	table.WriteString(
		"| refusal | of `trust: known` | of a known browser | of another app | price, or what is left |\n|---|---|---|---|---|\n")
	word := map[bool]string{true: "**yes**", false: "no"}
	var texts []string
	lastRow := ""
	end := func() {
		if lastRow != "" {
			fmt.Fprintf(&table, "| %s | %s |\n", strings.Join(texts, ", "), lastRow)
		}
	}
	for _, x := range whatRefuses {
		elsewhere := word[x.otherAppsKey]
		if x.otherAppsBrowser && !x.otherAppsKey {
			elsewhere = "its browsers"
		}
		price := strings.ReplaceAll(cmp.Or(x.price, x.left), "{n}", strconv.Itoa(spent[x.text]))
		if path, name, found := strings.Cut(x.test, " "); found {
			price += fmt.Sprintf(" ([test](%s %q))", path, name)
		}
		row := strings.Join([]string{word[x.secretKey], word[x.knownBrowser], elsewhere, price}, " | ")
		if row != lastRow {
			end()
			texts, lastRow = nil, row
		}
		texts = append(texts, x.text)
	}
	end()
	return table.String()
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	servertest.OK(t, err)
	return string(text)
}

// Each kind of problem, each of its reasons, each scope of a rule, each bound of failed checks and
// each scope of a spend cap has a row, or depends on the request itself. Each row that strangers
// can cause has a price.
func TestEveryRefusalHasARow(t *testing.T) {
	var refusals []string
	for _, k := range server.ProblemKinds() {
		refusals = append(refusals, k.Slug)
	}
	settings := reflect.TypeFor[config.Config]()
	policies, _ := settings.FieldByName("Policies")
	rule, _ := policies.Type.Elem().Elem().FieldByName("Scope")
	for _, scope := range append(strings.Fields(rule.Tag.Get("oneof")), string(policy.BreakerScope),
		string(policy.UnnamedScope), string(policy.BackoffScope), policy.CarrierName, policy.LockoutName) {
		refusals = append(refusals, server.QuotaExceeded.Slug+"/"+scope)
	}
	for _, bound := range reflect.VisibleFields(reflect.TypeFor[policy.FailedCheckRules]()) {
		refusals = append(refusals, server.TooManyChecks.Slug+"/"+bound.Name)
	}
	spend, _ := reflect.TypeOf(config.Config{}.SMS.Spend).Elem().FieldByName("Scope")
	for _, scope := range strings.Fields(spend.Tag.Get("oneof")) {
		refusals = append(refusals, server.DeliveryFailed.Slug+"/"+sms.ReasonSpendCap+"/"+scope)
	}
	for kind, r := range reasons {
		var files []string
		for pattern := range strings.FieldsSeq(r[0]) {
			some, err := filepath.Glob("../../" + pattern)
			servertest.OK(t, err)
			files = append(files, some...)
		}
		for _, file := range files {
			for _, found := range regexp.MustCompile(r[1]).FindAllStringSubmatch(readText(t, file), -1) {
				refusals = append(refusals, kind+"/"+found[1])
			}
		}
	}
	rows := slices.Clone(ofTheRequest)
	for _, x := range whatRefuses {
		rows = append(rows, x.by)
		if yes := x.secretKey || x.knownBrowser || x.otherAppsKey || x.otherAppsBrowser; yes != (x.price != "") || yes == (x.left != "") ||
			(x.exhaust == nil) == (x.test == "") {
			t.Errorf("the row of %s has a price exactly if there is a yes, else what is left, and one way to try it", x.text)
		}
		if path, name, named := strings.Cut(x.test, " "); named && !strings.Contains(readText(t, "../../../"+path), "\nfunc "+name+"(") {
			t.Errorf("the row of %s: %s is not in %s", x.text, name, path)
		}
	}
	for _, by := range refusals {
		if !slices.ContainsFunc(rows, func(row string) bool { return row == by || strings.HasPrefix(row, by+"/") }) {
			t.Errorf("%s has no row: can strangers cause it for others, and at what price?", by)
		}
	}
	servertest.Same(t, "refusals", len(refusals) > 60, true)
}
