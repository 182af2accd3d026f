package locate

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// findPostgres looks in the PATH first, as a shell does, then in the directory that pg_config
// prints, then in Debian's directory for the programs, which is not in the PATH.
func findPostgres() (string, bool) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
		if target, err := filepath.EvalSymlinks(path); err == nil { // the directory of a symbolic link may lack pg_dump
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	major := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return n
	}
	slices.SortFunc(debian, func(a, b string) int { return cmp.Compare(major(b), major(a)) }) // the newest first
	for _, dir := range append(dirs, debian...) {
		if hasAllPrograms(dir) {
			return dir, true
		}
	}
	return "", false
}

func hasAllPrograms(dir string) bool {
	for _, program := range []string{"initdb", "postgres", "pg_dump"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}
