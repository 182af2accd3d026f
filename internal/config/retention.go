package config

import (
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	defaultRetention = 90 * 24 * time.Hour
	// minRetention is a day more than the longest window and than the bound on failed checks look back (AUDIT-6).
	minRetention = 32 * 24 * time.Hour
	maxRetention = 10 * 366 * 24 * time.Hour
)

// retention is how long the log keeps a row; 0s is for ever.
func (s *sections) retention(n *yaml.Node, path string) {
	d, ok := s.duration(n, path)
	if ok && d != 0 && (d < minRetention || d > maxRetention) {
		s.mistake(n, path, "must be from 768h to 87840h, or 0s for ever")
	} else if ok {
		s.config.Retention = d
	}
}
