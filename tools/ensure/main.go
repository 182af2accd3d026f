// Command ensure prepares this machine for the tests. It looks for the programs that package locate
// lists, or for those that its arguments name. "nightly" stands for all of these, and for Patroni
// and etcd.
//
// If root runs it on Debian, it prints which programs are missing and how large they are, and
// installs them. For other users, on other systems and with ENSURE=no, it prints the command that
// installs them, and succeeds, because tests skip missing programs with the reason. In CI
// (CI=true), a skip would hide that nothing was tested, so a missing program is a failure there.
//
// `make test` runs it first. It leaves no installed program running, because tests start their own
// servers.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"sendcode/tools/ensure/locate"
)

func main() {
	parts, err := selectParts(os.Args[1:])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	absent := missing(parts)
	if len(absent) > 0 && mayInstall(os.Getuid()) {
		if err := install(listPackages(absent)); err != nil {
			fmt.Println("installing failed:", err)
		}
		absent = missing(absent)
	}
	if len(absent) == 0 {
		return
	}
	names, packages, brewCommands := listPackages(absent)
	command := strings.Join(brewCommands, " && ")
	if runtime.GOOS != "darwin" {
		command = "apt-get install -y --no-install-recommends " + strings.Join(packages, " ")
		if os.Getuid() != 0 {
			command = "sudo " + command
		}
	}
	fmt.Printf("%s: not installed; the tests that need it are skipped. To install:\n    %s\n", names, command)
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci { // any other text means that this is no CI
		fmt.Println("in CI every part is needed")
		os.Exit(1)
	}
}

// selectParts returns the parts with these names. Without names, it returns the parts that the
// tests need outside the nightly run.
func selectParts(names []string) (parts []locate.Part, err error) {
	if len(names) == 0 {
		return locate.All, nil
	}
	all := slices.Concat(locate.All, locate.Nightly)
	if slices.Equal(names, []string{"nightly"}) {
		return all, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(p locate.Part) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no part %q", name)
		}
		parts = append(parts, all[i])
	}
	return parts, nil
}

// mayInstall reports whether ensure installs programs for a user: for root on Debian, unless
// ENSURE=no.
func mayInstall(uid int) bool {
	_, err := exec.LookPath("apt-get")
	return err == nil && uid == 0 && os.Getenv("ENSURE") != "no"
}

func missing(parts []locate.Part) []locate.Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p locate.Part) bool { _, err := p.Find(); return err == nil })
}

// listPackages returns the names of parts, their Debian packages, and the packages of Homebrew.
func listPackages(parts []locate.Part) (names string, packages, brewCommands []string) {
	var all []string
	for _, p := range parts {
		all, packages = append(all, p.Name), append(packages, p.Debian...)
		if p.Homebrew != "" {
			brewCommands = append(brewCommands, "brew install "+p.Homebrew)
		}
	}
	return strings.Join(all, ", "), packages, brewCommands
}

// install installs packages. Before that, it prints the names of the missing programs and the size
// of the packages. It keeps packages from starting their services: 101 means "not allowed" (Debian,
// policy-rc.d interface of invoke-rc.d). If the machine has a policy of its own, that policy
// applies.
func install(names string, packages, _ []string) error {
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
	if _, err := aptGet("update"); err != nil {
		return err
	}
	wanted := append([]string{"install", "--no-install-recommends"}, packages...)
	simulated, _ := aptGet(append(wanted, "--assume-no")...) // the error only means that nothing was installed, as requested
	fmt.Printf("installing %s. %s (ENSURE=no: nothing is installed)\n", names, sizes(simulated))
	_, err = aptGet(append(wanted, "-y")...)
	return err
}

// aptGet runs apt-get, in English. The error contains the output.
func aptGet(args ...string) (output string, err error) {
	cmd := exec.Command("apt-get", append([]string{"-q"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("apt-get %s: %w\n%s", args[0], err, strings.TrimSpace(string(out)))
	}
	return string(out), err
}

var sizeLine = regexp.MustCompile(`(?m)^(Need to get|After this operation).*$`)

// sizes returns the lines in which apt-get prints the size of the packages.
func sizes(output string) string { return strings.Join(sizeLine.FindAllString(output, -1), " ") }
