//go:build nightly

package jobs_test

import "testing"

// The same as TestConversionWatchAsksABot and TestConversionWatchAsksNoLaunch, with the
// figures of a real attack and a real launch.
func TestConversionWatchAsksABotOf20000Recipients(t *testing.T) { testBot(t, 20_000) }

func TestConversionWatchAsksNoLaunchOf50000People(t *testing.T) { testLaunch(t, 50_000) }
