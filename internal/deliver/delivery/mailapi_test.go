package delivery_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailapi"
	"sendcode/internal/deliver/delivery/mailapi/mailapitest"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

// deliver offers a sample mail, and looks for secrets in the failure.
func deliver(t *testing.T, ctx context.Context, s *mailapi.Client, n int) (string, *delivery.Error) {
	t.Helper()
	mail, fail := new(delivery.MailEncoder).Encode(smtptest.Sample(n))
	if fail != nil {
		t.Fatal(fail)
	}
	reply, tried, fail := s.Deliver(ctx, math.MaxInt64, func() bool { return true }, mail)
	if tried != (fail == nil || fail.Stage != delivery.StageDial || fail.Err != ctx.Err()) {
		t.Errorf("tried: %v, %v", tried, fail)
	}
	for _, secret := range []string{smtptest.Recipient, "lovelace", smtptest.Code, "S3cret", "wJalr", "AKIA"} {
		if strings.Contains(fmt.Sprintf("%v %+v %#v", fail, fail, fail), secret) {
			t.Errorf("%q stands in %v", secret, fail)
		}
	}
	return reply, fail
}

// inBubble runs a test on a virtual clock, with a provider.
func inBubble(t *testing.T, test func(t *testing.T, s *mailapitest.Server)) {
	servertest.Bubble(t, func(t *testing.T) {
		s := mailapitest.New(t)
		test(t, s)
		s.Stop()
	})
}

// Each answer of the provider leads to its outcome. If the outcome is unknown, the client makes
// three requests, otherwise one. The failure has the wait that the provider asked for.
func TestMailAPIAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *mailapitest.Server) {
		server := s.Account(t)
		reply, fail := deliver(t, t.Context(), server, 1)
		if all := s.Mails(); fail != nil || reply != "200" || len(all) != 1 || all[0].To != smtptest.Recipient ||
			all[0].Send != "send-1" || !strings.Contains(all[0].Text, smtptest.Code) {
			t.Fatalf("%q, %v, %+v", reply, fail, all)
		}
		later := mailapitest.Later
		later.Header = http.Header{"Retry-After": {"7"}}
		outcomes := map[string]mailapitest.Outcome{
			"refused":         {Answer: mailapitest.Refused, Class: delivery.Rejected, Code: "-"},
			"later":           {Answer: later, Class: delivery.Temporary, Code: "-"},
			"200 and no ID":   {Answer: mailapitest.Answer{Status: 200, Body: `{"message":"hello"}`}, Class: delivery.Unknown},
			"200 and no JSON": {Answer: mailapitest.Answer{Status: 200, Body: `<html>id</html>`}, Class: delivery.Unknown},
		}
		maps.Copy(outcomes, mailapitest.Outcomes)
		for name, o := range outcomes {
			s.Script(mailapitest.Answers(o.Answer))
			before := s.Requests()
			_, fail := deliver(t, t.Context(), server, 2)
			times := 1
			if o.Class == delivery.Unknown {
				times = 3
			}
			if fail == nil || fail.Class != o.Class || fail.Stage != delivery.StageAnswer || fail.Status != o.Status ||
				fail.Code != o.Code && o.Code != "-" || s.Requests()-before != times {
				t.Errorf("%s: %+v after %d requests, want %s %q", name, fail, s.Requests()-before, o.Class, o.Code)
			}
			if fail != nil && (name == "later") != (fail.RetryAfter == 7*time.Second) {
				t.Errorf("%s: the provider asks to wait for 7 s, and the failure says %v", name, fail.RetryAfter)
			}
		}
	})
}

// The provider gets the message's own sender, language, ID and the headers by which events are
// matched.
func TestMailAPIMailArrivesWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, s *mailapitest.Server) {
		m := smtptest.Sample(1)
		m.From, m.Language = `"Läden, Ltd" <codes@news.shop.example>`, "de"
		m.IDHeaders = map[string]string{"X-Pm-Metadata-Send": "mark-1", "X-Mailgun-Variables": "mark-2"}
		encoded, fail := new(delivery.MailEncoder).Encode(m)
		if fail != nil {
			t.Fatal(fail)
		}
		if _, _, fail := s.Account(t).Deliver(t.Context(), math.MaxInt64, func() bool { return true }, encoded); fail != nil {
			t.Fatal(fail)
		}
		got := s.Mails()[0]
		from, err := mail.ParseAddress(got.From)
		if err != nil || *from != (mail.Address{Name: "Läden, Ltd", Address: "codes@news.shop.example"}) {
			t.Errorf("it is from %q (%v)", got.From, err)
		}
		for name, want := range map[string]string{
			"Message-Id": "<" + m.MessageID + ">", "Content-Language": "de",
			"References": "<thread-" + m.MessageID + ">", "X-Entity-Ref-Id": m.MessageID, "X-Auto-Response-Suppress": "DR, RN, NRN, OOF, AutoReply",
			"Auto-Submitted": "auto-generated", "X-Pm-Metadata-Send": "mark-1", "X-Mailgun-Variables": "mark-2",
		} {
			servertest.Same(t, name, got.Header[name], want)
		}
	})
}

// A request with an unknown outcome is repeated. The provider recognizes the repetition, so there
// is one mail. If no repetition is accepted or refused for good, the outcome stays unknown.
func TestMailAPIUnknown(t *testing.T) {
	half := "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{"
	inBubble(t, func(t *testing.T, s *mailapitest.Server) {
		server := s.Account(t)
		for n, c := range []struct {
			then, second mailapitest.Step
			want         delivery.ErrorClass // "" if accepted
			requests     int
		}{
			{mailapitest.Accepts, mailapitest.Accepts, "", 2},
			{mailapitest.Accepts, mailapitest.Breaks(""), "", 3},
			{mailapitest.Breaks(half), mailapitest.Breaks(half), delivery.Unknown, 3},
			{mailapitest.Answers(mailapitest.Later), mailapitest.Answers(mailapitest.Later), delivery.Unknown, 3},
			{mailapitest.Accepts, mailapitest.Answers(mailapitest.Later), "", 3},
			{mailapitest.Accepts, mailapitest.Answers(mailapitest.Refused), delivery.Rejected, 2},
			{mailapitest.Accepts, mailapitest.Answers(mailapitest.Answer{Status: 421, Body: "a proxy's"}), "", 3},
		} {
			s.Script(c.then, mailapitest.Breaks(half), c.second)
			mails, requests := len(s.Mails()), s.Requests()
			_, fail := deliver(t, t.Context(), server, n)
			got := delivery.ErrorClass("")
			if fail != nil {
				got = fail.Class
			}
			if got != c.want || s.Requests()-requests != c.requests || len(s.Mails())-mails != 1 {
				t.Errorf("%d: %v after %d requests, %d mails; want %q, %d, 1", n, fail, s.Requests()-requests,
					len(s.Mails())-mails, c.want, c.requests)
			}
		}
	})
}

// If ctx ends before the answer to a request, the outcome is unknown. If ctx had ended before the
// request, or if the handshake fails, the mail was certainly not accepted.
func TestMailAPITimes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *mailapitest.Server) {
		s.Script(mailapitest.Stalls)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, fail := deliver(t, ctx, s.Account(t), 1); fail == nil || fail.Class != delivery.Unknown {
			t.Errorf("%+v", fail)
		}
		if _, fail := deliver(t, ctx, s.Account(t), 2); fail == nil || fail.Class != delivery.Temporary || len(s.Mails()) != 1 {
			t.Errorf("%+v, %d mails", fail, len(s.Mails()))
		}
		untrusted := s.Account(t, func(c *mailapi.Config) { c.RootCAs = nil })
		if _, fail := deliver(t, t.Context(), untrusted, 3); fail == nil || fail.Class != delivery.Temporary || len(s.Mails()) != 1 {
			t.Errorf("%+v, %d mails", fail, len(s.Mails()))
		}
	})
}

// At most the configured number of requests run at once. A mail that cannot wait for its turn, or
// that may not begin, makes no request.
func TestMailAPITurns(t *testing.T) {
	inBubble(t, func(t *testing.T, s *mailapitest.Server) {
		server := s.Account(t, func(c *mailapi.Config) { c.MaxConns = 2 })
		s.Script(func(s *mailapitest.Server, w http.ResponseWriter, take func()) {
			time.Sleep(15 * time.Second)
			mailapitest.Accepts(s, w, take)
		})
		var all sync.WaitGroup
		began := time.Now()
		for n := range 2 {
			all.Go(func() { deliver(t, t.Context(), server, n) })
		}
		time.Sleep(time.Millisecond)
		mail, _ := new(delivery.MailEncoder).Encode(smtptest.Sample(9))
		if inUse, _, _ := server.ConnCounts(); inUse != 2 || server.MaxConns() != 2 {
			t.Errorf("%d in use", inUse)
		}
		for _, patience := range []time.Duration{0, time.Millisecond} {
			if _, tried, fail := server.Deliver(t.Context(), patience, func() bool { return true }, mail); tried || fail != nil {
				t.Errorf("%v: %v, %v", patience, tried, fail)
			}
		}
		all.Go(func() { deliver(t, t.Context(), server, 3) })
		all.Wait()
		if took := time.Since(began); took != 30*time.Second { // with two requests at once
			t.Errorf("three mails took %v", took)
		}
		requests := s.Requests()
		if _, tried, fail := server.Deliver(t.Context(), 0, func() bool { return false }, mail); tried || fail != nil ||
			s.Requests() != requests {
			t.Errorf("%v, %v", tried, fail)
		}
		server.Close()
		if _, tried, fail := server.Deliver(t.Context(), 0, func() bool { return true }, mail); tried || fail == nil ||
			fail.Class != delivery.Temporary {
			t.Errorf("%v, %v", tried, fail)
		}
	})
}

// Examine sends no mail. It succeeds if the login is good or the key may only send, and fails if
// the login is bad.
func TestMailAPIExamine(t *testing.T) {
	s := mailapitest.Start(t)
	config, err := mailapi.ParseURL(s.URL())
	servertest.OK(t, err)
	for _, said := range mailapitest.Good {
		s.Script(mailapitest.Answers(said))
		if seen, err := mailapi.Examine(t.Context(), config); err != nil || seen.Version != "TLS 1.3" ||
			!seen.Implicit || seen.Until.IsZero() {
			t.Errorf("%+v, %v", seen, err)
		}
	}
	s.Script(mailapitest.Answers(mailapitest.Bad))
	if _, err := mailapi.Examine(t.Context(), config); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	servertest.Same(t, "mails that were sent", len(s.Mails()), 0)
	s.Script(mailapitest.Accepts)
	client, err := mailapi.New(config)
	servertest.OK(t, err)
	deliver(t, t.Context(), client, 1)
	servertest.Same(t, "no end of the certificate is known", client.CertificateEnd().IsZero(), false)
}

func TestMailAPIParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"resend://:re_k@api.resend.com": "api.resend.com:443",
		"resend://:re_k@":               "api.resend.com:443",
		"resend://:re_k@127.0.0.1:8025": "127.0.0.1:8025",
	} {
		config, err := mailapi.ParseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if server, err := mailapi.New(config); err != nil || server.Address() != want {
			t.Errorf("%s: %v, %v", text, server, err)
		}
	}
	const secret = "s3cr3t"
	for reason, texts := range map[string][]string{
		"scheme":    {"http://x", "unknown://:x@y"},
		"malformed": {"resend://:" + secret + "#x@h", "resend://:" + secret + "\n@h"},
		"must be resend": {
			"resend://api.resend.com", "resend://" + secret + "@api.resend.com",
			"resend://a:" + secret + "@api.resend.com",
		},
		"must be scheme":    {"resend://:" + secret + "@h/x"},
		"unknown parameter": {"resend://:" + secret + "@h?region=x"},
		"twice":             {"resend://:" + secret + "@h?conns=1&conns=2"},
		"conns":             {"resend://:" + secret + "@h?conns=0", "resend://:" + secret + "@h?conns=1001"},
		"port":              {"resend://:" + secret + "@h:0", "resend://:" + secret + "@h:65536"},
		"tls must be":       {"resend://:" + secret + "@h?tls=opportunistic"},
		"unencrypted":       {"resend://:" + secret + "@h?tls=none"},
		"ca:":               {"resend://:" + secret + "@h?ca=missing.pem"},
	} {
		for _, text := range texts {
			if _, err := mailapi.ParseURL(text); err == nil || !strings.Contains(err.Error(), reason) && reason != "malformed" ||
				strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", strings.ReplaceAll(text, secret, "…"), err)
			}
		}
	}
}
