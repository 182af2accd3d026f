//go:build nightly

package jobs_test

import "testing"

// The same as TestABotIsAskedForAHumanCheck and TestALaunchIsNotAskedForAHumanCheck, with the
// figures of a real attack and a real launch.
func TestABotOf20000Recipients(t *testing.T) { testBot(t, 20_000) }

func TestALaunchOf50000People(t *testing.T) { testLaunch(t, 50_000) }
