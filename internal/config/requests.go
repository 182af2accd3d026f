package config

import "go.yaml.in/yaml/v3"

const (
	defaultRequests = 300
	maxRequests     = 1_000_000
)

// requestsPerMinute is how many requests browsers of one network may make; 0 is any number.
func (s *sections) requestsPerMinute(n *yaml.Node, path string) {
	i, ok := s.integer(n, path)
	if ok && (i < 0 || i > maxRequests) {
		s.mistake(n, path, "must be from 1 to %d, or 0 for no limit", maxRequests)
	} else if ok {
		s.config.RequestsPerMinute = i
	}
}
