package locate

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// findPostgres looks where a shell would, then where pg_config says, then
// where Debian puts the programs, which it keeps out of PATH.
func findPostgres() (string, bool) {
	for _, dir := range slices.Concat(dirsFromPath(), dirsFromPgConfig(), debianVersions("/usr/lib/postgresql")) {
		if hasAllPrograms(dir) {
			return dir, true
		}
	}
	return "", false
}

// dirsFromPath follows links, for a link to postgres alone has no pg_dump beside it.
func dirsFromPath() []string {
	path, err := exec.LookPath("postgres")
	if err != nil {
		return nil
	}
	dirs := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		dirs = append(dirs, filepath.Dir(target))
	}
	return dirs
}

func dirsFromPgConfig() []string {
	out, err := exec.Command("pg_config", "--bindir").Output()
	if err != nil {
		return nil
	}
	return []string{strings.TrimSpace(string(out))}
}

// debianVersions lists root/<major>/bin, the newest major version first.
func debianVersions(root string) []string {
	dirs, _ := filepath.Glob(filepath.Join(root, "*", "bin"))
	major := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(major(b), major(a)) })
	return dirs
}

func hasAllPrograms(dir string) bool {
	for _, program := range []string{"initdb", "postgres", "pg_dump"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}
