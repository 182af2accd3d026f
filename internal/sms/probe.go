package sms

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"sendcode/internal/delivery"
)

// Probe tries a carrier without sending anything: that its host answers, over TLS if the URL says so, and, if the API has a harmless
// request, that it takes our signature and knows the templates. It returns a sentence without secrets; "" with an error.
func Probe(ctx context.Context, c Carrier) (string, error) {
	p, ok := c.(Prober)
	if !ok {
		return "", errProbe
	}
	host, err := reach(ctx, p.Address())
	if err != nil {
		return "", err
	}
	said, err := p.Probe(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", host, err)
	}
	return host + " answers" + said, nil
}

const (
	errProbe           = delivery.Problem("nothing can be asked of this carrier")
	errResolve         = delivery.Problem("the host has no address")
	errNoReach         = delivery.Problem("the host takes no connection")
	errNoTLS           = delivery.Problem("the host's certificate is not valid for it, or it speaks no TLS")
	ErrLogin           = delivery.Problem("the login or the signature is refused")
	ErrUnknownTemplate = delivery.Problem("the carrier does not know a template, or has not approved it")
	ErrUndocumented    = delivery.Problem("the carrier answers something else than is documented")
)

// reach opens a connection as Send would, and returns the host.
func reach(ctx context.Context, endpoint string) (host string, err error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", ErrMessage
	}
	host = u.Hostname()
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", net.JoinHostPort(host, cmp.Or(u.Port(), u.Scheme)))
	if _, unknown := errors.AsType[*net.DNSError](err); unknown {
		return host, fmt.Errorf("%s: %w", host, errResolve)
	}
	if err != nil {
		return host, fmt.Errorf("%s: %w", host, errNoReach)
	}
	defer func() { _ = conn.Close() }()
	if u.Scheme == "https" && tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx) != nil {
		return host, fmt.Errorf("%s: %w", host, errNoTLS)
	}
	return host, nil
}

// KnownTemplates is what Prober.Probe says of a carrier that has approved all templates.
func KnownTemplates(ids []string) string {
	return ", takes the signature and knows the templates " + strings.Join(ids, ", ")
}

// All returns the IDs, each once, sorted.
func (a Approved) All() []string {
	var ids []string
	for _, languages := range a {
		ids = slices.AppendSeq(ids, maps.Values(languages))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
