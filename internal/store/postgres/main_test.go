package postgres

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"sendcode/internal/parts"
)

// shared is the server of all tests but those that stop it, change its settings or wait for its disk.
var shared parts.SharedPostgres

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "40") // unless the command says how many
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
