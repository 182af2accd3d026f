package servertest

import (
	"sync"
	"testing"
)

// SharedPostgres is one server for all tests of a package that neither stop it nor change its
// settings. Each test uses its own database. The server starts when the first test needs it.
// TestMain must Close it.
type SharedPostgres struct {
	mu        sync.Mutex
	server    *PostgresServer
	templates map[string]string // URLs, by name
}

// Server starts the server if it does not run yet. Tests do not use the database that its URL
// names.
func (s *SharedPostgres) Server(t testing.TB) *PostgresServer {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		// Without autovacuum, plans use statistics only if a test runs ANALYZE.
		server, err := StartPostgres(t.Context(), "autovacuum=off")
		mustOrSkip(t, err)
		server.shared = true
		s.server, s.templates = server, map[string]string{}
	}
	return s.server
}

// Copy makes a database with the contents of the template of that name, and returns its URL. The
// first test that uses the template fills it, and must leave no connection to it.
func (s *SharedPostgres) Copy(t testing.TB, template string, fill func(url string)) string {
	t.Helper()
	server := s.Server(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.templates[template] == "" {
		url, err := server.CreateDatabase(t.Context())
		mustOrSkip(t, err)
		fill(url)
		s.templates[template] = url
	}
	return server.Copy(t, s.templates[template])
}

// Close stops the server, if it was started, and removes it.
func (s *SharedPostgres) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	err := s.server.Close()
	s.server = nil
	return err
}
