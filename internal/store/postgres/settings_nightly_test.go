//go:build nightly

// Only `make nightly` runs this test. TestPostgresSessionIsOurs tries several settings at once.

package postgres

import "testing"

func TestPostgresSessionIsOursBesideEachSetting(t *testing.T) {
	t.Parallel()
	var alone [][]string
	for _, setting := range foreignSettings {
		alone = append(alone, []string{setting})
	}
	worksWithSettings(t, alone...)
}
