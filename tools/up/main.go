// Command up runs sendcode as in production, on real parts that it starts itself:
// Redis with a persistent log, Postgres, and an SMTP server that shows what it
// receives. All of them listen on loopback only and are gone with it, data and
// all; only the secrets stay the same from run to run, so that a curl line of
// yesterday still works.
//
// Variables that are set in its environment win, so SENDCODE_SMTP_URL=… make up
// sends through another server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// stateDir is kept, and not under version control.
const stateDir = "data/up"

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := up(signals); err != nil {
		fmt.Fprintln(os.Stderr, "up:", err)
		os.Exit(1)
	}
}

func up(signals <-chan os.Signal) error {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return err
	}
	seed, err := loadSeed(filepath.Join(stateDir, "seed"))
	if err != nil {
		return err
	}
	program := filepath.Join(stateDir, "sendcode")
	build := exec.Command("go", "build", "-o", program, "./cmd/sendcode")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build sendcode: %w", err)
	}
	street, err := open(context.Background(), "127.0.0.1:8025")
	if err != nil {
		return err
	}
	secrets := seed.secrets()
	street.tell(os.Stdout, secrets)
	env := append(street.env(), secrets.env()...)
	env = append(env, "SENDCODE_DATA_DIR="+stateDir, "SENDCODE_MAIL_FROM=sendcode <no-reply@sendcode.example>")
	return errors.Join(serve(program, append(env, os.Environ()...), signals), street.close())
}
