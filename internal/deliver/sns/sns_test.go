package sns_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/sns"
	"sendcode/internal/deliver/sns/snstest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store/storetest"
)

var snsNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// with returns a copy of the message in which one member has another value. If value is empty, the
// copy lacks the member.
func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m[key] = value; value == "" {
		delete(m, key)
	}
	return m
}

// Messages of the topic are verified, and their certificate is fetched only once.
func TestSNSVerify(t *testing.T) {
	a := snstest.New(t)
	topic := a.Subscriber()
	for name, m := range map[string]map[string]string{
		"a notification": snstest.Notification("{\"a\":\"1\n2\"}\n", snsNow),
		"with a subject": with(snstest.Notification("hi", snsNow), "Subject", "About it"),
		"an hour old":    snstest.Notification("hi", snsNow.Add(-65*time.Minute)),
		"ahead":          snstest.Notification("hi", snsNow.Add(5*time.Minute)),
		"a subscription": snstest.Confirmation("SubscriptionConfirmation", "abc", snsNow),
		"its end":        snstest.Confirmation("UnsubscribeConfirmation", "abc", snsNow),
	} {
		got, err := topic.Verify(t.Context(), a.Sign(m), snsNow)
		if err != nil || string(got.Kind) != m["Type"] || got.Text != m["Message"] {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	servertest.Same(t, "asked for", fmt.Sprint(a.Asked()),
		"[sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem crt.example/issuer.cer]")
}

// A forged message is refused. Its certificate is fetched only if nothing else shows the forgery.
func TestSNSForged(t *testing.T) {
	a := snstest.New(t)
	good, asks := snstest.Notification("hi", snsNow), snstest.Confirmation("SubscriptionConfirmation", "abc", snsNow)
	const file = "/SimpleNotificationService-0123456789abcdef.pem"
	elsewhere := func(address string) map[string]string { return with(good, "SigningCertURL", address) }
	for name, m := range map[string]map[string]string{
		"another topic": with(good, "TopicArn", snstest.Topic+"-2"), "no topic": with(good, "TopicArn", ""),
		"too old":       snstest.Notification("hi", snsNow.Add(-65*time.Minute-time.Millisecond)),
		"too far ahead": snstest.Notification("hi", snsNow.Add(5*time.Minute+time.Second)),
		"no time":       with(good, "Timestamp", ""), "another type": with(good, "Type", "Publication"),
		"version 1": with(good, "SignatureVersion", "1"), "version 3": with(good, "SignatureVersion", "3"),
		"two lines": with(good, "MessageId", "1\nTimestamp\n2"), "a subject of two lines": with(good, "Subject", "1\nTimestamp\n2"),
		"another host":    elsewhere("https://" + snstest.Host + ".example" + file),
		"another region":  elsewhere("https://sns.eu-west-2.amazonaws.com" + file),
		"another service": elsewhere("https://s3.eu-west-1.amazonaws.com" + file),
		"in the clear":    elsewhere("http://" + snstest.Host + file),
		"a port":          elsewhere("https://" + snstest.Host + ":8443" + file),
		"an account":      elsewhere("https://x@" + snstest.Host + file),
		"another path":    elsewhere("https://" + snstest.Host + "/?Action=x&y=.pem"),
		"above":           elsewhere("https://" + snstest.Host + "/SimpleNotificationService-0/../x.pem"),
		"a query":         elsewhere("https://" + snstest.Host + file + "?x"),
		"nowhere":         elsewhere(""),
	} {
		_, err := a.Subscriber().Verify(t.Context(), a.Sign(m), snsNow)
		if !errors.Is(err, sns.ErrForged) || errors.Is(err, sns.ErrOldSignature) != (name == "version 1") || len(a.Asked()) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, body := range []string{"", "{", "[]", "null", `{"Type":1}`} {
		if _, err := a.Subscriber().Verify(t.Context(), []byte(body), snsNow); !errors.Is(err, sns.ErrForged) {
			t.Errorf("%s: %v", body, err)
		}
	}
	topic := a.Subscriber()
	for name, body := range map[string]string{
		"another text":             strings.Replace(string(a.Sign(good)), `"hi"`, `"ho"`, 1),
		"another ID":               strings.Replace(string(a.Sign(good)), "22b80b92", "22b80b93", 1),
		"another time":             strings.Replace(string(a.Sign(good)), "05:06:07.000", "05:06:07.001", 1),
		"a subject":                strings.Replace(string(a.Sign(good)), `{`, `{"Subject":"x",`, 1),
		"no subject":               strings.Replace(string(a.Sign(with(good, "Subject", "x"))), `"Subject":"x",`, "", 1),
		"another token":            strings.Replace(string(a.Sign(asks)), `"abc"`, `"abd"`, 1),
		"another type":             strings.Replace(string(a.Sign(asks)), `"SubscriptionConfirmation"`, `"UnsubscribeConfirmation"`, 1),
		"members in other letters": strings.Replace(string(a.Sign(good)), `"Message":"hi"`, `"message":"hi"`, 1),
	} {
		if _, err := topic.Verify(t.Context(), []byte(body), snsNow); !errors.Is(err, sns.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.Key = storetest.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	if _, err := topic.Verify(t.Context(), a.Sign(good), snsNow); !errors.Is(err, sns.ErrForged) {
		t.Errorf("signed by a stranger: %v", err)
	}
}

// A certificate that is not SNS's verifies nothing, wherever it comes from.
func TestSNSCertificates(t *testing.T) {
	own := snstest.New(t)
	answers := func(answer http.HandlerFunc) func(a *snstest.Amazon) {
		return func(a *snstest.Amazon) { a.Answer = answer }
	}
	for name, change := range map[string]func(a *snstest.Amazon){
		"of another name":      func(a *snstest.Amazon) { a.Leaf.DNSNames = []string{"sns.example.com"} },
		"of another region":    func(a *snstest.Amazon) { a.Leaf.DNSNames = []string{"sns-signing.eu-west-2.amazonaws.com"} },
		"expired":              func(a *snstest.Amazon) { a.Leaf.NotAfter = snsNow.Add(-time.Second) },
		"of later":             func(a *snstest.Amazon) { a.Leaf.NotBefore = snsNow.Add(time.Second) },
		"for something else":   func(a *snstest.Amazon) { a.Leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} },
		"of no authority":      func(a *snstest.Amazon) { a.Leaf.IssuingCertificateURL = nil },
		"of another authority": answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(own.Certificate()) }),
		"of another kind of key": func(a *snstest.Amazon) {
			a.Key = storetest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		},
		"no certificate": answers(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}),
		"100 MB": func(a *snstest.Amazon) {
			a.Answer = func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(a.Certificate())
				for block := make([]byte, 1<<20); ; {
					if _, err := w.Write(block); err != nil { // the client has closed the connection long before the end
						return
					}
				}
			}
		},
		"elsewhere": answers(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://"+snstest.Host+"/2.pem", http.StatusFound)
		}),
		"missing": answers(http.NotFound),
	} {
		a := snstest.New(t)
		change(a)
		for range 2 {
			_, err := a.Subscriber().Verify(t.Context(), a.Sign(snstest.Notification("hi", snsNow)), snsNow)
			servertest.Same(t, fmt.Sprint(name, ": ", err), errors.Is(err, sns.ErrForged), true)
		}
		for _, address := range a.Asked() {
			if strings.HasSuffix(address, "/2.pem") {
				t.Error("a redirect was followed")
			}
		}
	}
}

// A certificate that was verified is not fetched again. It is trusted until it expires.
func TestSNSKnownCertificateExpires(t *testing.T) {
	a := snstest.New(t)
	a.Leaf.NotAfter = snsNow.Add(time.Hour)
	topic := a.Subscriber()
	for _, wait := range []time.Duration{0, time.Hour, time.Hour + time.Second} {
		_, err := topic.Verify(t.Context(), a.Sign(snstest.Notification("hi", snsNow.Add(wait))), snsNow.Add(wait))
		servertest.Same(t, fmt.Sprintf("believed after %v", wait), err == nil, wait <= time.Hour)
	}
	servertest.Same(t, "asked", len(a.Asked()), 2)
}

// While Amazon does not return the certificate, a message counts neither as genuine nor as forged.
// Later it counts as genuine.
func TestSNSVerifyWithoutTheCertificate(t *testing.T) {
	a := snstest.New(t)
	topic, body := a.Subscriber(), a.Sign(snstest.Notification("hi", snsNow))
	for name, answer := range map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"half": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			_, _ = w.Write(a.Certificate())
		},
	} {
		a.Answer = answer
		if _, err := topic.Verify(t.Context(), body, snsNow); err == nil || errors.Is(err, sns.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.Answer = nil
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := topic.Verify(t.Context(), body, snsNow); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	storetest.OK(t, storetest.Err(topic.Verify(t.Context(), body, snsNow)))
}

// A subscription is confirmed only at an address of SNS, even if the message names another one.
func TestSNSConfirm(t *testing.T) {
	a := snstest.New(t)
	topic := a.Subscriber()
	asks := with(snstest.Confirmation("SubscriptionConfirmation", "a+b/c", snsNow), "SubscribeURL", "http://127.0.0.1/")
	m := storetest.Must(topic.Verify(t.Context(), a.Sign(asks), snsNow))(t)
	servertest.Same(t, "before", len(a.Confirmed()), 0)
	storetest.OK(t, topic.ConfirmSubscription(t.Context(), m))
	servertest.Same(t, "confirmed", fmt.Sprint(a.Confirmed()), "["+snstest.Topic+" a+b/c]")
	a.Answer = http.NotFound
	if err := topic.ConfirmSubscription(t.Context(), m); err == nil || strings.Contains(err.Error(), "a+b") {
		t.Errorf("%v", err)
	}
	a.Answer = nil
	for name, m := range map[string]map[string]string{
		// The signature of a notification does not cover a token.
		"a notification with a token": with(snstest.Notification("hi", snsNow), "Token", "abc"),
		"an end":                      snstest.Confirmation("UnsubscribeConfirmation", "abc", snsNow),
		"no token":                    snstest.Confirmation("SubscriptionConfirmation", "", snsNow),
	} {
		body := a.Sign(m)
		if m["Type"] == "Notification" {
			body = []byte(strings.Replace(string(a.Sign(with(m, "Token", ""))), "{", `{"Token":"abc",`, 1))
		}
		m := storetest.Must(topic.Verify(t.Context(), body, snsNow))(t)
		if err := topic.ConfirmSubscription(t.Context(), m); err == nil {
			t.Errorf("%s was confirmed", name)
		}
	}
	servertest.Same(t, "confirmed", len(a.Confirmed()), 1)
}

func TestSNSIsTopic(t *testing.T) {
	for arn, want := range map[string]bool{
		snstest.Topic: true, "arn:aws-cn:sns:cn-north-1:123456789012:x": true,
		"arn:aws-us-gov:sns:us-gov-west-1:123456789012:x": true,
		"": false, "ses-events": false, "arn:aws:sqs:eu-west-1:123456789012:x": false,
		"arn:aws:sns:eu-west-1:12345:x":                false,
		"arn:aws:sns:eu-west-1.example:123456789012:x": false, snstest.Topic + ".fifo": false,
		snstest.Topic + "\n": false,
	} {
		servertest.Same(t, arn, sns.IsTopic(arn), want)
	}
}
