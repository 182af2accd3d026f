package sms

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// Probe tries a carrier without sending a message. It connects to the carrier's host or to the
// proxy, with TLS for an https URL. If the API has a request that sends nothing, Probe makes it;
// the answer may show whether the API accepts the login and has the templates. Probe returns a
// sentence without secrets. The error is errNoProbe if the carrier implements no probe.
func Probe(ctx context.Context, c Carrier) (string, error) {
	p, ok := c.(prober)
	if !ok {
		return "", errNoProbe
	}
	host, err := checkConnection(ctx, p.EndpointURL())
	if err != nil {
		return "", err
	}
	detail, err := p.Probe(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", host, err)
	}
	return host + " answers" + detail, nil
}

const (
	errNoProbe            = delivery.SafeError("this carrier has no harmless request to try")
	errResolve            = delivery.SafeError("the host has no address")
	errNoConnection       = delivery.SafeError("the host accepts no connection")
	errNoTLS              = delivery.SafeError("the host's certificate is not valid for it, or it does not use TLS")
	ErrLogin              = delivery.SafeError("the login or the signature is refused")
	ErrUnknownTemplate    = delivery.SafeError("the carrier does not know a template, or has not approved it")
	ErrUndocumentedAnswer = delivery.SafeError("the carrier's answer is not as documented")
)

// checkConnection connects to the endpoint or, as Send does, to the environment's proxy for it. It
// returns the host.
func checkConnection(ctx context.Context, endpoint string) (host string, err error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", providerhttp.ErrIncompleteMessage
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		u = proxy
	}
	host = u.Hostname()
	conn, err := (&net.Dialer{Timeout: providerhttp.DialTimeout}).DialContext(ctx, "tcp",
		net.JoinHostPort(host, cmp.Or(u.Port(), u.Scheme)))
	if _, unknown := errors.AsType[*net.DNSError](err); unknown {
		return host, fmt.Errorf("%s: %w", host, errResolve)
	}
	if err != nil {
		return host, fmt.Errorf("%s: %w", host, errNoConnection)
	}
	defer func() { _ = conn.Close() }()
	if u.Scheme == "https" && tls.Client(conn,
		&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx) != nil {
		return host, fmt.Errorf("%s: %w", host, errNoTLS)
	}
	return host, nil
}

// templatesKnownNote ends Probe's sentence if all templates are approved.
func templatesKnownNote(ids []string) string {
	return ", takes the signature and knows the templates " + strings.Join(ids, ", ")
}

// TemplateIDs returns the IDs, each once, sorted.
func (a ApprovedTemplates) TemplateIDs() []string {
	var ids []string
	for _, languages := range a {
		ids = slices.AppendSeq(ids, maps.Values(languages))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
