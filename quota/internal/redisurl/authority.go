package redisurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
)

// extractCA removes the parameter ca from the URL, since go-redis does not know it, and returns the
// certificate authorities in its file; nil without the parameter. Errors: no TLS, given twice, file
// unreadable.
func extractCA(rawURL string) (rest string, pool *x509.CertPool, err error) {
	before, text, _ := strings.Cut(rawURL, "?")
	query, err := url.ParseQuery(text)
	if err != nil || !query.Has("ca") {
		return rawURL, nil, nil // go-redis reports an invalid query
	}
	files := query["ca"]
	query.Del("ca")
	if len(query) > 0 {
		before += "?" + query.Encode()
	}
	switch {
	case !strings.HasPrefix(rawURL, "rediss"):
		return "", nil, errors.New("redis URL: ca is of no use without TLS; the URL would begin with rediss")
	case len(files) > 1:
		return "", nil, errors.New("redis URL: ca is given twice")
	}
	pool, err = readCA(files[0])
	return before, pool, err
}

// readCA reads a PEM file. Its errors do not show the path: with an unescaped & in the URL, the
// path may be a part of a password.
func readCA(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, errors.New("redis URL: ca names no file")
	}
	pem, err := os.ReadFile(path)
	if cause := (*fs.PathError)(nil); errors.As(err, &cause) {
		err = cause.Err
	}
	if err != nil {
		return nil, fmt.Errorf("redis URL: ca names a file that cannot be read: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("redis URL: ca names a file without a certificate in PEM form")
	}
	return pool, nil
}

// tlsConfig returns a TLS configuration for several servers: each certificate must match the host
// name that was dialled.
func tlsConfig(pool *x509.CertPool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
}
