package main

import (
	"context"
	"os"
	"os/exec"

	"sendcode/internal/parts"
)

// serve runs the program until it ends by itself or for a signal, which is
// passed on: once for every one that comes in, since a second one means "now".
// The program is in a process group of its own, or a Ctrl-C would reach it twice.
func serve(program string, env []string, signals <-chan os.Signal) error {
	cmd := exec.Command(program, "serve")
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
	process, err := parts.Run(cmd)
	if err != nil {
		return err
	}
	for {
		select {
		case sig := <-signals:
			_ = process.Signal(sig) // fails where it has ended, which Done says as well
		case <-process.Done():
			return process.Wait(context.Background())
		}
	}
}
