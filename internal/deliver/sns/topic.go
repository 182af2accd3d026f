package sns

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Topic verifies the messages of one topic. Safe for concurrent use.
type Topic struct {
	arn              string
	host             string   // of SNS in the topic's region
	certificateHosts []string // host names; SNS's certificate for the topic's region has one of them
	http             *http.Client
	roots            *x509.CertPool

	fetching chan struct{} // semaphore that bounds concurrent fetches of certificates, since anyone can cause a fetch
	mu       sync.Mutex
	known    map[string]*x509.Certificate // verified certificates by URL
}

// These are bounds on fetching and keeping certificates. SNS changes its certificate about once a
// year.
const (
	fetchTimeout          = 5 * time.Second
	maxAnswerBytes        = 64 << 10
	maxCachedCertificates = 8
	minKeyBits            = 2048
	maxConcurrentFetches  = 4
)

// NewTopic returns the topic with this ARN. The caller must have checked the ARN with IsTopic. The
// client must follow no redirects and must reach only public addresses. If roots is nil, the
// system's root certificates verify SNS's certificate.
func NewTopic(arn string, client *http.Client, roots *x509.CertPool) *Topic {
	parts := arnPattern.FindStringSubmatch(arn)
	partition, region, suffix := parts[1], parts[2], "amazonaws.com"
	if partition == "aws-cn" {
		suffix += ".cn"
	}
	t := &Topic{
		arn: arn, host: "sns." + region + "." + suffix, http: client, roots: roots,
		fetching: make(chan struct{}, maxConcurrentFetches), known: map[string]*x509.Certificate{},
	}
	// SNS's certificate must have one of these host names, which are those in SnsHostProvider of
	// the AWS SDK for Java. The first name is for most regions, the second for opt-in regions, and
	// the third for regions of other partitions.
	t.certificateHosts = []string{"sns." + suffix, "sns-signing." + region + "." + suffix, "sns-" + region + "." + suffix}
	if partition == "aws-us-gov" {
		t.certificateHosts = []string{"sns-us-gov-west-1." + suffix}
	}
	return t
}

var certificatePathPattern = regexp.MustCompile(`^/SimpleNotificationService-[A-Za-z0-9]+\.pem$`)

// signingKey returns the public key in the certificate at the address. It returns the same errors
// as Verify.
func (t *Topic) signingKey(ctx context.Context, address string, now time.Time) (*rsa.PublicKey, error) {
	u, err := url.Parse(address)
	if err != nil || !certificatePathPattern.MatchString(u.Path) || address != "https://"+t.host+u.Path {
		return nil, newForgedError("its certificate is on another host")
	}
	cert, err := t.loadCertificate(ctx, address, now)
	if err != nil {
		return nil, err
	}
	if now.After(cert.NotAfter) {
		return nil, newForgedError("its certificate has expired")
	}
	return cert.PublicKey.(*rsa.PublicKey), nil // verifyCertificate has checked the key's type
}

func (t *Topic) loadCertificate(ctx context.Context, address string, now time.Time) (*x509.Certificate, error) {
	if cert := t.cachedCertificate(address); cert != nil {
		return cert, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	select {
	case t.fetching <- struct{}{}:
		defer func() { <-t.fetching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if cert := t.cachedCertificate(address); cert != nil {
		return cert, nil
	}
	text, err := t.fetch(ctx, address)
	if err != nil {
		return nil, err
	}
	cert, err := t.verifyCertificate(ctx, text, now)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxCachedCertificates {
		clear(t.known)
	}
	t.known[address] = cert
	return cert, nil
}

func (t *Topic) cachedCertificate(address string) *x509.Certificate {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[address]
}

// verifyCertificate returns the first certificate of a PEM file. It returns an error if that
// certificate does not belong to SNS or does not lead to a trusted authority. If the file has only
// one certificate, verifyCertificate fetches the issuer's certificate from the address in that
// certificate.
func (t *Topic) verifyCertificate(ctx context.Context, text []byte, now time.Time) (*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, newForgedError("its certificate can't be read")
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, newForgedError("its certificate can't be read")
	}
	leaf, intermediates := all[0], x509.NewCertPool()
	for _, cert := range all[1:] {
		intermediates.AddCert(cert)
	}
	if key, ok := leaf.PublicKey.(*rsa.PublicKey); !ok || key.N.BitLen() < minKeyBits {
		return nil, newForgedError("its certificate has another key")
	}
	if !slices.ContainsFunc(t.certificateHosts, func(name string) bool { return leaf.VerifyHostname(name) == nil }) {
		return nil, newForgedError("its certificate does not belong to SNS")
	}
	if len(all) == 1 && len(leaf.IssuingCertificateURL) > 0 {
		issuer, err := t.fetch(ctx, leaf.IssuingCertificateURL[0])
		if err != nil {
			return nil, err
		}
		if cert, err := x509.ParseCertificate(issuer); err == nil {
			intermediates.AddCert(cert)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: intermediates, CurrentTime: now}); err != nil {
		return nil, newForgedError("its certificate is not signed by a trusted authority")
	}
	return leaf, nil
}

// ConfirmSubscription confirms the subscription that a verified message offers. It ignores the
// address in the message. Instead, it builds the address from the topic's host, the topic's ARN and
// the message's token (docs.aws.amazon.com/sns/latest/api/API_ConfirmSubscription.html).
func (t *Topic) ConfirmSubscription(ctx context.Context, m Message) error {
	if m.Kind != SubscriptionConfirmation || m.token == "" {
		return errors.New("sns: the message does not ask for a subscription")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	q := url.Values{"Action": {"ConfirmSubscription"}, "TopicArn": {t.arn}, "Token": {m.token}}
	_, err := t.fetch(ctx, "https://"+t.host+"/?"+q.Encode())
	return err
}

// fetch fetches a file of at most maxAnswerBytes bytes. Its errors do not contain the address,
// because the address may contain a token.
func (t *Topic) fetch(ctx context.Context, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, newForgedError("a malformed address")
	}
	resp, err := t.http.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return nil, fmt.Errorf("sns: Amazon does not answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, errors.New("sns: Amazon's answer is incomplete")
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return nil, fmt.Errorf("sns: Amazon answered %d", resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, newForgedError(fmt.Sprint("Amazon answered ", resp.StatusCode))
	case len(text) > maxAnswerBytes:
		return nil, newForgedError("Amazon's answer is too long")
	}
	return text, nil
}
