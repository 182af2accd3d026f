//go:build nightly

// Only `make nightly` runs these tests, since the same steps at each width, light and dark, take
// minutes.

package clients

import (
	"testing"

	"sendcode/internal/kit/browsertest"
)

// Together, this test and [TestPeopleInOtherBrowsers] make each journey at both widths, light and
// dark.
func TestPeopleInOtherWidthsAndColours(t *testing.T) {
	narrow, wide := browsertest.Look{Width: 320, Height: 640}, browsertest.Look{Width: 1280, Height: 900}
	narrowDark, wideDark := narrow, wide
	narrowDark.Dark, wideDark.Dark = true, true
	inOtherBrowsers(t, looks{narrow, narrow, narrow}, looks{wideDark, wideDark, wideDark}, looks{wide, narrowDark, narrowDark})
}
