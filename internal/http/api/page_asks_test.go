package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/api"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/verification/verificationtest"
)

// pageAnswer is an answer as our page reads it.
type pageAnswer struct {
	problem
	body string
}

// onNews runs test, whose requests are like those of the page of the app news. The app may send
// text messages to Germany. Known browsers have more places than strangers.
func onNews(t *testing.T, test func(r *verificationtest.Rig, ask func(method, path, body string) pageAnswer)) {
	t.Helper()
	germany := func(s *verificationtest.Settings) { s.Numbers.Countries = []string{"DE"} }
	verificationtest.InBubbleWith(t, verificationtest.WithReserve(map[string]int{"hour": 1}, germany), func(r *verificationtest.Rig) {
		page := client{r.T, r.Svc.Routes(pageKeys, api.Services{}), "192.0.2.1", pageOfNews}
		test(r, func(method, path, body string) pageAnswer {
			w := page.do(method, "/v1/"+path, body, fromPage...)
			return pageAnswer{problemOf(w), w.Body.String()}
		})
	})
}

// firstID returns the ID of the verification in an answer.
func firstID(answer pageAnswer) string {
	return regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(answer.body)[1]
}

// If a request has `sure`, the answer for a mistyped domain or a landline is a 422 that asks
// whether the recipient is right, and nothing is sent. The request is accepted if `sure` is that
// domain or number. The log contains nothing that a person typed.
func TestSendAsksOnceAboutADoubtfulRecipient(t *testing.T) {
	onNews(t, func(r *verificationtest.Rig, ask func(method, path, body string) pageAnswer) {
		mistyped, landline, accepted := invalidField("to", "domain_typo"), invalidField("to", "landline"), problem{status: 202}
		for body, want := range map[string]problem{
			`"email","to":"ana.maria.1@gmial.com","sure":""`:                    mistyped,
			`"email","to":"ana.maria.2@gmial.com","sure":"gmial.com"`:           accepted,
			`"email","to":"ana.maria.3@gmial.com","sure":"outlok.com"`:          mistyped,
			`"email","to":"ana.maria.4@gmial.com"`:                              accepted,
			`"email","to":"ana.maria.5@gmail.com","sure":""`:                    accepted,
			`"email","to":"Ana <ana.maria.6@gmail.com>","sure":""`:              accepted,
			`"email","to":"Ana <ana.maria.1@gmial.com>","sure":""`:              mistyped,
			`"email","to":"Ana <ana.maria.7@gmial.com>","sure":"gmial.com>"`:    accepted,
			`"email","to":"ana.maria@gmial","sure":""`:                          invalidField("to", "domain_incomplete"),
			`"sms","to":"+493023125001","sure":""`:                              landline,
			`"sms","to":"030 23125002","country":"DE","sure":""`:                landline,
			`"sms","to":"030 23125003","country":"DE","sure":"030 23125003"`:    accepted,
			`"sms","to":"030 23125004","country":"DE","sure":"030 23125003"`:    landline,
			`"sms","to":"+493023125005"`:                                        accepted,
			`"sms","to":"+4915123456789","sure":""`:                             accepted,
			`"sms","to":"+493023125","sure":"","nothing":"ana.maria@gmial.com"`: {400, "unknown-field", "nothing", ""},
		} {
			got := ask(http.MethodPost, "verifications", `{"channel":`+body+"}")
			verificationtest.Equal(r, body, got.problem, want)
			suggests := regexp.MustCompile(`"suggestion":"ana.maria.[13]@gmail.com"`).MatchString(got.body)
			verificationtest.Equal(r, "suggests for "+body, suggests, want == mistyped)
		}
		ask(http.MethodPost, "verifications/ana.maria@gmial.com/check", `{"code":"my code, 23125"}`)
		r.Sleep(time.Second)
		r.WantMails(5)
		r.Want("text messages", len(r.Carrier.Accepted()), 3)
		typed := regexp.MustCompile("gmial|gmail|2312500|30 23|code,")
		if out := r.Printed.String(); !strings.Contains(out, "status=422") || typed.MatchString(out) {
			r.Errorf("logged: %s", out)
		}
	})
}

// A resend shortly before a code expires opens another verification. If the mail with the first
// code arrives later, its code is valid for the first verification.
func TestCheckOfACodeThatComesAfterTheNext(t *testing.T) {
	onNews(t, func(r *verificationtest.Rig, ask func(method, path, body string) pageAnswer) {
		send := func(body string) (opened, code string) {
			answer := ask(http.MethodPost, "verifications", body)
			r.Sleep(time.Second)
			return firstID(answer), r.LastCode()
		}
		older, first := send(`{"channel":"email","to":"ana.maria@example.com"}`)
		r.Sleep(8*time.Minute + 30*time.Second)
		newer, second := send(`{"verification_id":"` + older + `"}`)
		verificationtest.Equal(r, "another one is opened", older != newer, true)
		verificationtest.Equal(r, "with another code", first != second, true)
		check := func(at string) pageAnswer {
			return ask(http.MethodPost, "verifications/"+at+"/check", `{"code":"`+first+`"}`)
		}
		if wrong, right := check(newer), check(older); !strings.Contains(wrong.body, `"valid":false`) ||
			!strings.Contains(right.body, `"valid":true`) {
			r.Errorf("%+v\n%+v", wrong, right)
		}
	})
}

// A browser reads the same about a mail, byte by byte except for IDs, whether or not its user has
// confirmed a phone number. This holds even if the browser sends the token for that number.
func TestMailAnswerHidesConfirmedNumber(t *testing.T) {
	ids := regexp.MustCompile(`"(id|support)":"[^"]+"`)
	var answers [2]struct{ sent, status, channels pageAnswer }
	for i := range answers {
		onNews(t, func(r *verificationtest.Rig, ask func(method, path, body string) pageAnswer) {
			known, start := "", time.Now()
			if i > 0 {
				sent := ask(http.MethodPost, "verifications", `{"channel":"sms","to":"+4915123456789"}`)
				r.Sleep(time.Second)
				right := ask(http.MethodPost, "verifications/"+firstID(sent)+"/check", `{"code":"`+r.Carrier.Accepted()[0].Code+`"}`)
				known = regexp.MustCompile(`"known":"([^"]+)"`).FindStringSubmatch(right.body)[1]
			}
			r.Sleep(time.Minute - time.Since(start))
			answers[i].sent = ask(http.MethodPost, "verifications", `{"channel":"email","to":"ana.maria@example.com","known":["`+known+`"]}`)
			r.Sleep(time.Minute)
			answers[i].status, answers[i].channels = ask(http.MethodGet, "verifications/"+firstID(answers[i].sent), ""), ask(http.MethodGet, "channels", "")
			for _, answer := range []*pageAnswer{&answers[i].sent, &answers[i].status, &answers[i].channels} {
				answer.body = ids.ReplaceAllString(answer.body, "")
			}
		})
	}
	servertest.Same(t, "with a code by text message", answers[1], answers[0])
}
