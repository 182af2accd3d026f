package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"sendcode/internal/parts/locate"
)

// machine is what installing depends on.
type machine struct {
	root, apt bool
	install   func(packages []string) error
}

// ensure reports whether every part is there in the end. What is found is not
// worth a line.
func (m machine) ensure(out io.Writer, parts []locate.Part) bool {
	absent := missing(parts)
	if len(absent) == 0 {
		return true
	}
	if m.root && m.apt {
		fmt.Fprintf(out, "installing %s\n", names(absent))
		if err := m.install(debianPackages(absent)); err != nil {
			fmt.Fprintf(out, "installing failed: %v\n", err)
		}
		if absent = missing(absent); len(absent) == 0 {
			return true
		}
	}
	fmt.Fprintf(out, "%s: not installed; the tests that need it are skipped. To install:\n    %s\n",
		names(absent), m.advice(runtime.GOOS, absent))
	return false
}

func (m machine) advice(system string, absent []locate.Part) string {
	if system == "darwin" {
		var commands []string
		for _, part := range absent {
			commands = append(commands, "brew install "+part.Homebrew)
		}
		return strings.Join(commands, " && ")
	}
	command := "apt-get install -y --no-install-recommends " + strings.Join(debianPackages(absent), " ")
	if !m.root {
		command = "sudo " + command
	}
	return command
}

func missing(parts []locate.Part) []locate.Part {
	var absent []locate.Part
	for _, part := range parts {
		if _, err := part.Find(); err != nil {
			absent = append(absent, part)
		}
	}
	return absent
}

func debianPackages(parts []locate.Part) []string {
	var packages []string
	for _, part := range parts {
		packages = append(packages, part.Debian...)
	}
	return packages
}

func names(parts []locate.Part) string {
	var list []string
	for _, part := range parts {
		list = append(list, part.Name)
	}
	return strings.Join(list, ", ")
}
