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
)

// Bounds of look-ups, which anybody can cause for a domain of their own.
const (
	keepFor        = 10 * time.Minute
	keepFailureFor = time.Minute // no issuer, or one that is away
	lookUpTimeout  = 5 * time.Second
	maxDocument    = 64 << 10 // bytes
	maxKeys        = 4        // of one ID, with which a signature is verified
	maxAtOnce      = 16       // look-ups
	maxKnown       = 1000     // domains
)

// Verifier verifies tokens, and keeps what it has fetched. Safe for concurrent use. Client, TXT and
// Now are required.
type Verifier struct {
	// Client must refuse private addresses, and follow no redirect: the owner of an address's
	// domain decides where it connects to.
	Client *http.Client
	// TXT returns the TXT records of a name: net.Resolver.LookupTXT.
	TXT func(ctx context.Context, name string) ([]string, error)
	Now func() time.Time

	mu       sync.Mutex
	known    map[string]*entry // by domain
	underWay int
}

// entry is what is known of a domain once ready is closed: its issuer, or why there is none.
type entry struct {
	ready chan struct{}
	host  string
	keys  jose.JSONWebKeySet
	err   error
	until time.Time // zero: not ready
}

// issuerOf returns the issuer of a domain. It waits for a look-up until ctx ends; the look-up goes
// on, and others wait for the same one.
func (v *Verifier) issuerOf(ctx context.Context, domain string) (*entry, error) {
	e := v.entryOf(domain)
	if e == nil {
		return nil, invalid("too many look-ups")
	}
	select {
	case <-e.ready:
		return e, e.err
	case <-ctx.Done():
		return nil, invalid("issuer too slow")
	}
}

// entryOf returns the entry of a domain. It starts a look-up if there is none that holds, and
// returns nil if too many are under way.
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
		ctx, cancel := context.WithTimeout(context.Background(), lookUpTimeout)
		defer cancel()
		e.err = v.lookUp(ctx, domain, e)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.underWay--
		if e.until = v.Now().Add(keepFor); e.err != nil {
			e.until = v.Now().Add(keepFailureFor)
		}
		close(e.ready)
	}()
	return e
}

// hostName matches a host in lower case without scheme, port and path, as the TXT record has it.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// lookUp reads the TXT record of a domain and fetches the issuer's keys.
func (v *Verifier) lookUp(ctx context.Context, domain string, into *entry) error {
	records, err := v.TXT(ctx, "_email-verification."+domain+".")
	if err != nil || len(records) != 1 {
		return invalid("no TXT record")
	}
	host, ok := strings.CutPrefix(records[0], "iss=")
	if !ok || len(host) > 253 || !hostName.MatchString(host) {
		return invalid("TXT record")
	}
	into.host = host
	var metadata struct {
		Keys string `json:"jwks_uri"`
	}
	if err := v.fetch(ctx, "https://"+host+"/.well-known/email-verification", &metadata); err != nil {
		return err
	}
	return v.fetch(ctx, metadata.Keys, &into.keys)
}

// fetch reads a JSON document from an https URL without a port.
func (v *Verifier) fetch(ctx context.Context, address string, into any) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || !hostName.MatchString(u.Host) {
		return invalid("address of a document")
	}
	r := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{"Accept": {"application/json"}}}
	got, err := v.Client.Do(r.WithContext(ctx))
	if err != nil {
		return invalid("issuer away")
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxDocument+1))
	if err != nil || got.StatusCode != http.StatusOK || len(text) > maxDocument || json.Unmarshal(text, into) != nil {
		return invalid("document of the issuer")
	}
	return nil
}
