package mailapitest

import (
	"testing"

	"sendcode/internal/deliver/delivery/mailapi"
)

// Account makes a sender for the provider, on its port or without one, changed as wanted.
func (s *Server) Account(t testing.TB, change ...func(*mailapi.Config)) *mailapi.Client {
	t.Helper()
	config, err := mailapi.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = s.Dial
	for _, c := range change {
		c(&config)
	}
	server, err := mailapi.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return server
}
