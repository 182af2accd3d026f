// Command ensure gets this machine ready for the tests: it looks for Redis,
// Postgres, PgBouncer, a browser, a C compiler, an SMS gateway, Node and Python, and as root on
// Debian installs those that are missing. Elsewhere it prints the command to install them and goes on,
// for the tests then skip with the reason; only in CI (CI=true), where a skip
// would hide that nothing was tested, is a missing part a failure.
//
// `make test` runs it first. Nothing that it installs is left running: tests
// start servers of their own.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"sendcode/internal/parts/locate"
)

func main() {
	ci, _ := strconv.ParseBool(os.Getenv("CI")) // anything else is no CI
	_, aptErr := exec.LookPath("apt-get")
	m := machine{root: os.Getuid() == 0, apt: aptErr == nil, install: install}
	if !m.ensure(os.Stdout, locate.All()) && ci {
		fmt.Println("in CI every part is needed")
		os.Exit(1)
	}
}
