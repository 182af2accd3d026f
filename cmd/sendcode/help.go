package main

import "github.com/alecthomas/kong"

// help is --help as a command.
type help struct {
	Command []string `arg:"" optional:"" help:"The command to explain; none: all of them."`
}

func (h help) Run(line *kong.Context) error {
	_, err := line.Kong.Parse(append(h.Command, "--help")) // prints, and leaves through the parser's exit
	line.Kong.FatalIfErrorf(err)
	return nil
}
