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

// errNoModules is the error if npm could not install the modules in a lock file.
var errNoModules = errors.New("npm did not bring the modules")

// NodeModules returns the directory node_modules for a folder with a package.json, whose versions
// are exact, and usually a package-lock.json. npm installs the modules once for each content of the
// lock file (or of package.json, without a lock file), in CacheDir. Without npm or its packages the
// test is skipped; in CI it fails.
func NodeModules(t testing.TB, source string) string {
	t.Helper()
	command := "ci"
	manifest, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if os.IsNotExist(err) {
		command = "install"
		manifest, err = os.ReadFile(filepath.Join(source, "package.json"))
	}
	mustOrSkip(t, err)
	cache, err := CacheDir()
	mustOrSkip(t, err)
	folder := filepath.Join(cache, fmt.Sprintf("%s-%x", filepath.Base(source), sha256.Sum256(manifest)))
	mustOrSkip(t, os.MkdirAll(folder, 0o755))
	installLock := flock.New(filepath.Join(folder, "lock"))
	mustOrSkip(t, installLock.Lock())
	defer func() { reportError(t, installLock.Unlock()) }()
	modules, complete := filepath.Join(folder, "node_modules"), filepath.Join(folder, "complete")
	if _, err := os.Stat(complete); err == nil {
		return modules
	}
	if err := os.CopyFS(folder, os.DirFS(source)); !os.IsExist(err) {
		mustOrSkip(t, err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", command, "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline",
		"--loglevel=error")
	cmd.Dir = folder
	if output, err := cmd.CombinedOutput(); err != nil {
		mustOrSkip(t, fmt.Errorf("%w of %s: %w: %s", errNoModules, source, err, output))
	}
	mustOrSkip(t, os.WriteFile(complete, nil, 0o600))
	return modules
}
