package servertest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
)

// NodeModules returns the node_modules of a folder with a package.json and a package-lock.json. npm
// brings them once for each lock file, into the user's folder for caches. Without npm or its
// packages the test is skipped; in CI it fails.
func NodeModules(t testing.TB, source string) string {
	t.Helper()
	modules, err := nodeModules(t, source)
	need(t, err)
	return modules
}

var errNoModules = errors.New("npm did not bring the modules")

func nodeModules(t testing.TB, source string) (modules string, err error) {
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	kept := filepath.Join(cache, "sendcode", fmt.Sprintf("%s-%x", filepath.Base(source), sha256.Sum256(lock)))
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return "", err
	}
	one := flock.New(filepath.Join(kept, "lock"))
	if err := one.Lock(); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, one.Unlock()) }()
	modules, complete := filepath.Join(kept, "node_modules"), filepath.Join(kept, "complete")
	if _, err := os.Stat(complete); err == nil {
		return modules, nil
	}
	if err := os.CopyFS(kept, os.DirFS(source)); err != nil && !os.IsExist(err) {
		return "", err
	}
	bring := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
		"--loglevel=error")
	bring.Dir = kept
	if said, err := bring.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w of %s: %w: %s", errNoModules, source, err, said)
	}
	return modules, os.WriteFile(complete, nil, 0o600)
}
