package evp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sendcode/internal/base/panics"
)

// Bounds of look-ups. Anyone can cause one, for a domain of their own.
const (
	cacheFor            = 10 * time.Minute
	cacheFailureFor     = time.Minute // of a domain without an issuer, or whose issuer does not answer
	issuerLookUpTimeout = 5 * time.Second
	maxDocumentSize     = 64 << 10 // bytes
	maxKeysTried        = 4        // keys with the ID that a signature names
	maxLookUpsAtOnce    = 16
	maxCachedDomains    = 1000
)

// Verifier verifies tokens, and keeps what it has fetched. Safe for concurrent use. Client, TXT and
// Now are required.
type Verifier struct {
	// Client must refuse private IP addresses and follow no redirect: the owner of a mail domain
	// decides where the client connects to.
	Client *http.Client
	// TXT returns the TXT records of a name: net.Resolver.LookupTXT.
	TXT func(ctx context.Context, name string) ([]string, error)
	Now func() time.Time

	mu       sync.Mutex
	known    map[string]*cachedIssuer // by domain
	underWay int
}

// cachedIssuer is a domain's issuer, or why there is none. It may be read once ready is closed.
type cachedIssuer struct {
	ready chan struct{}
	host  string
	keys  jose.JSONWebKeySet
	err   error
	until time.Time // zero: not ready
}

// awaitIssuer returns the issuer of a domain. It waits for the look-up until ctx ends; the look-up
// then goes on, for later callers.
func (v *Verifier) awaitIssuer(ctx context.Context, domain string) (*cachedIssuer, error) {
	e := v.findOrStartLookUp(domain)
	if e == nil {
		return nil, tokenError("too many look-ups")
	}
	select {
	case <-e.ready:
		return e, e.err
	case <-ctx.Done():
		return nil, tokenError("issuer too slow")
	}
}

// findOrStartLookUp returns the cached issuer of a domain. If there is none, or if it has expired, it
// starts a look-up. It returns nil if too many look-ups are under way, unless the domain's issuer
// answered before: so tokens of slow domains cannot block a domain whose issuer works.
func (v *Verifier) findOrStartLookUp(domain string) *cachedIssuer {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.known[domain]
	if before != nil && (before.until.IsZero() || v.Now().Before(before.until)) {
		return before
	}
	if v.underWay >= maxLookUpsAtOnce && (before == nil || before.err != nil) {
		return nil
	}
	if v.known == nil {
		v.known = map[string]*cachedIssuer{}
	}
	if before == nil && len(v.known) >= maxCachedDomains {
		v.dropFirstToExpire()
	}
	e := &cachedIssuer{ready: make(chan struct{})}
	v.known[domain] = e
	v.underWay++
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), issuerLookUpTimeout)
		defer cancel()
		e.err = panics.Err
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.underWay--
			if e.until = v.Now().Add(cacheFor); e.err != nil {
				e.until = v.Now().Add(cacheFailureFor)
			}
			close(e.ready)
		}()
		defer panics.Recover(panics.Request)
		e.err = v.fetchIssuer(ctx, domain, e)
	}()
	return e
}

// dropFirstToExpire removes the domain whose answer expires first. The caller holds the lock.
func (v *Verifier) dropFirstToExpire() {
	var oldest string
	for domain, e := range v.known {
		if !e.until.IsZero() && (oldest == "" || e.until.Before(v.known[oldest].until)) {
			oldest = domain
		}
	}
	delete(v.known, oldest)
}

// hostPattern matches a host in lower case without scheme, port and path, as the TXT record has it.
var hostPattern = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// fetchIssuer reads the TXT record of a domain and fetches the issuer's keys.
func (v *Verifier) fetchIssuer(ctx context.Context, domain string, into *cachedIssuer) error {
	records, err := v.TXT(ctx, "_email-verification."+domain+".")
	if err != nil || len(records) != 1 {
		return tokenError("no TXT record")
	}
	host, ok := strings.CutPrefix(records[0], "iss=")
	if !ok || len(host) > 253 || !hostPattern.MatchString(host) {
		return tokenError("TXT record")
	}
	into.host = host
	var metadata struct {
		Keys string `json:"jwks_uri"`
	}
	if err := v.fetchJSON(ctx, "https://"+host+"/.well-known/email-verification", &metadata); err != nil {
		return err
	}
	return v.fetchJSON(ctx, metadata.Keys, &into.keys)
}

// fetchJSON reads a JSON document from an https URL without a port.
func (v *Verifier) fetchJSON(ctx context.Context, address string, into any) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || !hostPattern.MatchString(u.Host) {
		return tokenError("address of a document")
	}
	r := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{"Accept": {"application/json"}}}
	got, err := v.Client.Do(r.WithContext(ctx))
	if err != nil {
		return tokenError("issuer away")
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxDocumentSize+1))
	if err != nil || got.StatusCode != http.StatusOK || len(text) > maxDocumentSize || json.Unmarshal(text, into) != nil {
		return tokenError("document of the issuer")
	}
	return nil
}
