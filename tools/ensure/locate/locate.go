// Package locate finds the programs that the tests need but that are not Go modules, such as Redis,
// Postgres, proxies, browsers and a C compiler.
//
// internal/kit/servertest starts the programs that are found here, and tools/ensure installs the
// missing ones, so both agree on what "missing" means. Package locate has no dependencies, so that
// tools/ensure builds quickly on a fresh machine.
package locate

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Part is one program, or one family of programs, outside this repository.
type Part struct {
	Name     string   // the name in a sentence: "redis-server"
	Debian   []string // packages to install on Debian
	Homebrew string   // formula for macOS, or "--cask name"; empty: there is none
	find     func() (string, bool)
}

// Find returns the path of the program. For Postgres, it returns the directory of the programs. The
// error is a *Missing.
func (p Part) Find() (string, error) {
	if path, ok := p.find(); ok {
		return path, nil
	}
	return "", &Missing{Part: p}
}

// Missing is the error for a part that is not installed on this machine. It says how to install the
// part.
type Missing struct{ Part Part }

func (m *Missing) Error() string {
	macOS := "there is none"
	if m.Part.Homebrew != "" {
		macOS = "brew install " + m.Part.Homebrew
	}
	return fmt.Sprintf("%s is not installed (Debian: apt-get install %s; macOS: %s)",
		m.Part.Name, strings.Join(m.Part.Debian, " "), macOS)
}

// These are the parts. Postgres is the directory with initdb, postgres and pg_dump; the others are
// programs.
var (
	Redis     = Part{"redis-server", []string{"redis-server"}, "redis", inPath("redis-server", "valkey-server")}
	Postgres  = Part{"PostgreSQL", []string{"postgresql"}, "postgresql", findPostgres}
	PgBouncer = Part{"pgbouncer", []string{"pgbouncer"}, "pgbouncer", firstOf(
		inPath("pgbouncer"), atPath("/usr/sbin/pgbouncer"))} // /usr/sbin is not in every user's PATH
	// Patroni makes one of several Postgres servers the leader. It keeps its state in etcd, for
	// which it needs a module of Python.
	Patroni = Part{"patroni", []string{"patroni", "python3-etcd"}, "", inPath("patroni")}
	Etcd    = Part{"etcd", []string{"etcd-server"}, "etcd", inPath("etcd")}
	// Chromium is the browser of this name, or Chrome. Its packages include fonts, because without
	// a font, pages have no text to lay out and measure. With Liberation alone, fontconfig would
	// use a monospaced font for sans-serif, so DejaVu is installed, too.
	Chromium = Part{"chromium", []string{"chromium", "fonts-liberation", "fonts-dejavu-core"}, "--cask chromium", firstOf(
		inPath("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
		atPath("/Applications/Chromium.app/Contents/MacOS/Chromium"),
		atPath("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"))}
	// HeadlessShell is Chromium without windows, menus and developer tools. It shows the same pages
	// and uses half the processor time. If it is missing, tests use Chromium instead.
	HeadlessShell = Part{
		"chromium-headless-shell",
		[]string{"chromium-headless-shell"},
		"--cask chromium",
		firstOf(inPath("chromium-headless-shell", "chrome-headless-shell"), Chromium.find),
	}
	// Firefox and WebKit are the other two families of browsers. WebKitWebDriver starts a
	// WebKitGTK, which needs a display: Xvfb has one in memory.
	Firefox = Part{"firefox-esr", []string{"firefox-esr"}, "--cask firefox", firstOf(inPath("firefox-esr", "firefox"),
		atPath("/Applications/Firefox.app/Contents/MacOS/firefox"))}
	WebKit = Part{"WebKitWebDriver", []string{"webkit2gtk-driver"}, "", inPath("WebKitWebDriver")}
	Xvfb   = Part{"Xvfb", []string{"xvfb"}, "", inPath("Xvfb")}
	// Compiler is the C compiler, which Go's race detector links with.
	Compiler = Part{"a C compiler", []string{"gcc", "libc6-dev"}, "gcc", findCompiler}
	// Operators put these proxies in front of replicas.
	HAProxy = Part{"haproxy", []string{"haproxy"}, "haproxy", firstOf(inPath("haproxy"), atPath("/usr/sbin/haproxy"))}
	Nginx   = Part{"nginx", []string{"nginx-light"}, "nginx", firstOf(inPath("nginx"), atPath("/usr/sbin/nginx"))}
	Caddy   = Part{"caddy", []string{"caddy"}, "caddy", inPath("caddy")}
	// Curl, Node, Python and Django run the examples in their languages.
	Curl   = Part{"curl", []string{"curl"}, "curl", inPath("curl")}
	Node   = Part{"node", []string{"nodejs"}, "node", inPath("node", "nodejs")}
	Python = Part{"python3", []string{"python3"}, "python", inPath("python3")}
	Django = Part{"Django", []string{"python3-django"}, "python && pip3 install django", findDjango}
	// Promtool tests the alert rules, and Prometheus runs the queries of the dashboard.
	Promtool   = Part{"promtool", []string{"prometheus"}, "prometheus", inPath("promtool")}
	Prometheus = Part{"prometheus", []string{"prometheus"}, "prometheus", inPath("prometheus")}
)

// Nightly lists the parts that only `make nightly` needs.
var Nightly = []Part{Patroni, Etcd}

// All lists the parts that are not in Nightly, in the order in which missing ones are reported.
var All = []Part{
	Redis, Postgres, PgBouncer, HAProxy, Nginx, Caddy, Chromium, HeadlessShell, Firefox, WebKit, Xvfb,
	Compiler, Curl, Node, Python, Django, Promtool, Prometheus,
}

func findCompiler() (string, bool) {
	if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
		return inPath(cc[0])()
	}
	return inPath("gcc", "clang", "cc")()
}

// findDjango returns a Python that has Django: the first Python of the PATH, or the system's, for
// which Debian has packages.
func findDjango() (string, bool) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import django").Run() == nil {
			return python, true
		}
	}
	return "", false
}

func firstOf(ways ...func() (string, bool)) func() (string, bool) {
	return func() (string, bool) {
		for _, find := range ways {
			if path, ok := find(); ok {
				return path, true
			}
		}
		return "", false
	}
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

func atPath(path string) func() (string, bool) {
	return func() (string, bool) {
		info, err := os.Stat(path)
		return path, err == nil && !info.IsDir()
	}
}
