//go:build nightly

package jobs_test

import "testing"

// These tests are TestConversionWatchAsksABot and TestConversionWatchAsksNoLaunch with as many
// codes as in a real attack and a real launch.
func TestConversionWatchAsksABotOf20000Recipients(t *testing.T) { testBot(t, 20_000) }

func TestConversionWatchAsksNoLaunchOf50000People(t *testing.T) { testLaunch(t, 50_000) }
