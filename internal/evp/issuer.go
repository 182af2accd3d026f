package evp

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// How long what is known of a domain holds. An issuer that was away, or a domain without one, is
// asked again after a minute.
const (
	keep        = 10 * time.Minute
	keepFailure = time.Minute

	// Bounds of a look-up, in time and in bytes of a document, of look-ups at once, and of the
	// domains that are known.
	fetchTimeout = 5 * time.Second
	maxDocument  = 64 << 10
	maxAtOnce    = 16
	maxKnown     = 1000
)

// Verifier verifies tokens, and keeps what it has fetched. Safe for concurrent use. Client,
// Resolver and Now are required.
type Verifier struct {
	// Client must refuse addresses that may not be called, and redirects: an address's domain
	// decides where it connects to.
	Client   *http.Client
	Resolver *net.Resolver
	Now      func() time.Time

	mu       sync.Mutex
	known    map[string]*entry // by domain
	underWay int
}

// entry is what is known of a domain, once ready is closed.
type entry struct {
	ready chan struct{}
	issuer
	err   error
	until time.Time // zero: not ready
}

type issuer struct {
	host string
	keys jose.JSONWebKeySet
}

// issuerOf returns the issuer of a domain. It waits for a look-up until ctx ends; the look-up goes
// on, and others wait for the same one.
func (v *Verifier) issuerOf(ctx context.Context, domain string) (issuer, error) {
	e := v.entryOf(domain)
	if e == nil {
		return issuer{}, invalid("too many look-ups")
	}
	select {
	case <-e.ready:
		return e.issuer, e.err
	case <-ctx.Done():
		return issuer{}, invalid("issuer too slow")
	}
}

// entryOf returns the entry of a domain, and starts its look-up if there is none that holds; nil if
// too many are under way.
func (v *Verifier) entryOf(domain string) *entry {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.known[domain]; e != nil && (e.until.IsZero() || v.Now().Before(e.until)) {
		return e
	}
	if v.underWay == maxAtOnce {
		return nil
	}
	if len(v.known) >= maxKnown || v.known == nil {
		v.known = map[string]*entry{} // those under way are only asked for again
	}
	e := &entry{ready: make(chan struct{})}
	v.known[domain] = e
	v.underWay++
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		e.issuer, e.err = v.lookUp(ctx, domain)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.underWay--
		e.until = v.Now().Add(keep)
		if e.err != nil {
			e.until = v.Now().Add(keepFailure)
		}
		close(e.ready)
	}()
	return e
}

// hostName matches a host as the TXT record must have it: lower case, without scheme, port and
// path.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// lookUp reads the TXT record of a domain and fetches the issuer's keys.
func (v *Verifier) lookUp(ctx context.Context, domain string) (by issuer, err error) {
	records, err := v.Resolver.LookupTXT(ctx, "_email-verification."+domain+".")
	if err != nil || len(records) != 1 {
		return by, invalid("no TXT record")
	}
	host, ok := strings.CutPrefix(records[0], "iss=")
	if !ok || len(host) > 253 || !hostName.MatchString(host) {
		return by, invalid("TXT record")
	}
	by.host = host
	var metadata struct {
		Keys string `json:"jwks_uri"`
	}
	if err := v.fetch(ctx, "https://"+host+"/.well-known/email-verification", &metadata); err != nil {
		return by, err
	}
	return by, v.fetch(ctx, metadata.Keys, &by.keys)
}

// fetch reads a JSON document from an https URL without a port.
func (v *Verifier) fetch(ctx context.Context, address string, into any) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || !hostName.MatchString(u.Host) {
		return invalid("address of a document")
	}
	r := (&http.Request{Method: http.MethodGet, URL: u,
		Header: http.Header{"Accept": {"application/json"}, "User-Agent": {"sendcode"}}}).WithContext(ctx)
	answer, err := v.Client.Do(r)
	if err != nil {
		return invalid("issuer away")
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err != nil || answer.StatusCode != http.StatusOK || len(text) > maxDocument ||
		json.Unmarshal(text, into) != nil {
		return invalid("document of the issuer")
	}
	return nil
}
