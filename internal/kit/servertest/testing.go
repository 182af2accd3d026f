package servertest

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"sendcode/tools/ensure/locate"
)

// Chromium returns the path of a complete Chromium, with windows and developer tools.
func Chromium(t testing.TB) string { t.Helper(); return mustFind(t, locate.Chromium) }

// HeadlessShell returns the path of Chromium's headless shell, which needs less processor time.
func HeadlessShell(t testing.TB) string { t.Helper(); return mustFind(t, locate.HeadlessShell) }

// Curl returns the path of curl.
func Curl(t testing.TB) string { t.Helper(); return mustFind(t, locate.Curl) }

// Node returns the path of Node.js.
func Node(t testing.TB) string { t.Helper(); return mustFind(t, locate.Node) }

// Python returns the path of python3.
func Python(t testing.TB) string { t.Helper(); return mustFind(t, locate.Python) }

// Django returns the path of a Python that has Django.
func Django(t testing.TB) string { t.Helper(); return mustFind(t, locate.Django) }

// Promtool returns the path of Prometheus's promtool.
func Promtool(t testing.TB) string { t.Helper(); return mustFind(t, locate.Promtool) }

func mustFind(t testing.TB, part locate.Part) string {
	t.Helper()
	path, err := part.Find()
	mustOrSkip(t, err)
	return path
}

// FreePort returns a loopback port on which nothing listens. No other caller gets this port until
// the test ends.
func FreePort(t testing.TB) int {
	t.Helper()
	p, err := claim()
	mustOrSkip(t, err)
	t.Cleanup(func() { reportError(t, p.release()) })
	return p.port
}

// mustOrSkip ends the test unless err is nil. If a program is not installed, a disk cannot be
// mounted, or npm cannot install modules, the test is skipped. In CI it fails, since a skip would
// hide that nothing was tested.
func mustOrSkip(t testing.TB, err error) {
	t.Helper()
	var missing *locate.Missing
	ci, _ := strconv.ParseBool(os.Getenv("CI")) // any other text means that this is not CI
	switch {
	case err == nil:
	case !ci && (errors.As(err, &missing) || errors.Is(err, errNoMount) || errors.Is(err, errNoModules)):
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

func reportError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// SkipUnderRace skips a test that counts allocations: the race detector allocates, too, and empties
// pools at random.
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("allocations are not counted under the race detector")
	}
}
