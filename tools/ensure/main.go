// Command ensure prepares this machine for the tests. It looks for Redis, Postgres, PgBouncer,
// HAProxy, nginx, Caddy, three browsers, a C compiler, curl, Node, Python, Django, promtool and
// Prometheus. As root on Debian it installs missing programs. Elsewhere it prints the command that
// installs them and goes on, since tests of missing programs are skipped with the reason. In CI
// (CI=true) a skip would hide that nothing was tested, so there a missing program is a failure.
//
// `make test` runs it first. It leaves no installed program running: tests start their own servers.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"sendcode/tools/ensure/locate"
)

func main() {
	absent := missing(locate.All)
	if _, err := exec.LookPath("apt-get"); len(absent) > 0 && err == nil && os.Getuid() == 0 {
		names, packages, _ := lists(absent)
		fmt.Println("installing", names)
		if err := aptGet(packages); err != nil {
			fmt.Println("installing failed:", err)
		}
		absent = missing(absent)
	}
	if len(absent) == 0 {
		return
	}
	names, packages, brews := lists(absent)
	command := strings.Join(brews, " && ")
	if runtime.GOOS != "darwin" {
		command = "apt-get install -y --no-install-recommends " + strings.Join(packages, " ")
		if os.Getuid() != 0 {
			command = "sudo " + command
		}
	}
	fmt.Printf("%s: not installed; the tests that need it are skipped. To install:\n    %s\n", names, command)
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci { // anything else is no CI
		fmt.Println("in CI every part is needed")
		os.Exit(1)
	}
}

func missing(parts []locate.Part) []locate.Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p locate.Part) bool { _, err := p.Find(); return err == nil })
}

// lists returns the names of parts, their Debian packages, and the packages of Homebrew.
func lists(parts []locate.Part) (names string, packages, brews []string) {
	var all []string
	for _, p := range parts {
		all, packages = append(all, p.Name), append(packages, p.Debian...)
		if p.Homebrew != "" {
			brews = append(brews, "brew install "+p.Homebrew)
		}
	}
	return strings.Join(all, ", "), packages, brews
}

// aptGet installs packages. It shows their output only if it fails. It keeps packages from starting
// their services: 101 means "not allowed" (Debian, policy-rc.d interface of invoke-rc.d). If the
// machine has a policy of its own, that policy applies.
func aptGet(packages []string) error {
	const policy = "/usr/sbin/policy-rc.d"
	file, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err == nil {
		defer os.Remove(policy)
		_, err = file.WriteString("#!/bin/sh\nexit 101\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)} {
		cmd := exec.Command("apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
