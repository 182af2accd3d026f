// Package locate finds the programs that the tests need and Go does not bring:
// Redis, Postgres, PgBouncer, a browser, a C compiler, Node, Python.
//
// internal/servertest starts what is found here and tools/ensure installs what is
// not, so both agree on what "missing" means. It has no dependencies, which
// keeps tools/ensure quick to build on a fresh machine.
package locate

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Part is one program, or one family of programs, outside this repository.
type Part struct {
	Name     string   // as in a sentence: "redis-server"
	Debian   []string // packages to install on Debian
	Homebrew string   // formula, or "--cask name", for macOS
	find     func() (string, bool)
}

// Find returns where the part is: the path of the program, for Postgres the
// directory of its programs. The error is a *Missing.
func (p Part) Find() (string, error) {
	if path, ok := p.find(); ok {
		return path, nil
	}
	return "", &Missing{Part: p}
}

// Missing says that a part is not on this machine, and how to install it.
type Missing struct{ Part Part }

func (m *Missing) Error() string {
	return fmt.Sprintf("%s is not installed (Debian: apt-get install %s; macOS: brew install %s)",
		m.Part.Name, strings.Join(m.Part.Debian, " "), m.Part.Homebrew)
}

// All lists every part, in the order in which they are reported.
func All() []Part {
	return []Part{Redis(), Postgres(), PgBouncer(), Chromium(), Compiler(), Node(), Python()}
}

// Redis is the server program.
func Redis() Part {
	return Part{
		Name: "redis-server", Debian: []string{"redis-server"}, Homebrew: "redis",
		find: inPath("redis-server", "valkey-server"),
	}
}

// Postgres is the directory that holds initdb, postgres and pg_dump.
func Postgres() Part {
	return Part{
		Name: "PostgreSQL", Debian: []string{"postgresql"}, Homebrew: "postgresql",
		find: findPostgres,
	}
}

// Chromium is a browser of that family.
func Chromium() Part {
	return Part{
		// Without any font, pages have no text to lay out and measure.
		Name: "chromium", Debian: []string{"chromium", "fonts-liberation"}, Homebrew: "--cask chromium",
		find: func() (string, bool) {
			path, ok := inPath("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")()
			if ok {
				return path, true
			}
			return firstFile(
				"/Applications/Chromium.app/Contents/MacOS/Chromium",
				"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
			)
		},
	}
}

// Compiler is the C compiler, which Go's race detector links with.
func Compiler() Part {
	return Part{
		Name: "a C compiler", Debian: []string{"gcc", "libc6-dev"}, Homebrew: "gcc",
		find: func() (string, bool) {
			if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
				return inPath(cc[0])()
			}
			return inPath("gcc", "clang", "cc")()
		},
	}
}

// Node runs the examples in JavaScript.
func Node() Part {
	return Part{Name: "node", Debian: []string{"nodejs"}, Homebrew: "node", find: inPath("node", "nodejs")}
}

// Python runs the examples in Python.
func Python() Part {
	return Part{Name: "python3", Debian: []string{"python3"}, Homebrew: "python", find: inPath("python3")}
}

func inPath(names ...string) func() (string, bool) {
	return func() (string, bool) {
		for _, name := range names {
			if path, err := exec.LookPath(name); err == nil {
				return path, true
			}
		}
		return "", false
	}
}

func firstFile(paths ...string) (string, bool) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, true
		}
	}
	return "", false
}
