package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// install runs apt-get. Its output is shown only where it fails.
func install(packages []string) error {
	done, err := forbidServices("/usr/sbin/policy-rc.d")
	if err != nil {
		return err
	}
	defer done()
	if err := apt("update", "-q"); err != nil {
		return err
	}
	return apt(append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)...)
}

func apt(args ...string) error {
	cmd := exec.Command("apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// forbidServices keeps packages from starting their services while they are
// installed: 101 is "not allowed" (Debian, policy-rc.d interface of
// invoke-rc.d). Where the machine has a policy of its own, that one counts.
func forbidServices(policy string) (done func(), err error) {
	file, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil
	} else if err != nil {
		return nil, err
	}
	_, err = file.WriteString("#!/bin/sh\nexit 101\n")
	return func() { os.Remove(policy) }, errors.Join(err, file.Close())
}
