// Command ensure gets this machine ready for the tests: it looks for Redis, Postgres, PgBouncer,
// HAProxy, nginx, Caddy, three browsers, a C compiler, curl, Node, Python, Django, promtool and
// Prometheus, and as root on Debian installs those that are missing. Elsewhere it prints the
// command to install them and goes on, for the tests then skip with the reason; only in CI
// (CI=true), where a skip would hide that nothing was tested, is a missing part a failure.
//
// `make test` runs it first. Nothing that it installs is left running: tests start servers of their
// own.
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

// lists returns the names of parts, their packages of Debian, and the commands of Homebrew.
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

// aptGet installs packages. Its output is shown only where it fails. It keeps them from starting
// their services: 101 is "not allowed" (Debian, policy-rc.d interface of invoke-rc.d). Where the
// machine has a policy of its own, that one counts.
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
