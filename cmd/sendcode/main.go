// Command sendcode sends verification codes, never more often than the policy says. This package
// has only flags, signals and exit codes. Package config reads the settings; packages app, commands
// and doctor do the rest.
//
// Exit codes:
//
//	0    success
//	1    a mistake in the configuration, or a failure
//	2    a command line that is not understood
//	75   a failure of the command bounce: the mail server tries again later
//	128  plus the number of the second signal, which ended the process at once
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"sendcode/internal/base/document"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
)

// commandLine declares the commands. Without a command, the program serves.
type commandLine struct {
	Serve   serveCommand   `cmd:"" default:"withargs" help:"Run the service (default)."`
	Init    initCommand    `cmd:"" help:"Ask five questions, and write the settings, the secrets, and systemd units or a compose file."`
	Migrate migrateCommand `cmd:"" help:"Update the tables of the database for this version."`
	Rekey   rekeyCommand   `cmd:"" help:"Encrypt stored addresses and second factors again, with the first key of SENDCODE_SECRET_KEYS. The exit code is 1 while rows under other keys remain."`
	Backup  backupCommand  `cmd:"" help:"Copy the SQLite file. The service may run meanwhile."`
	Restore restoreCommand `cmd:"" help:"Unpack an archive that \"backup -\" made into an empty data directory."`
	Move    moveCommand    `cmd:"" help:"Move all rows of the SQLite file to an empty Postgres database. Stop the service first."`
	Config  configCommand  `cmd:"" help:"Print the settings in force without their secrets, or every mistake in them."`
	Doctor  doctorCommand  `cmd:"" help:"Try every connection, and check what is often set up wrongly."`
	Health  healthCommand  `cmd:"" help:"Ask a running service whether it is ready. The exit code is 1 if it is not."`
	Bounce  bounceCommand  `cmd:"" help:"Read a bounce mail from standard input, and post it to the running service. The exit code is 75 if your mail server must try again."`
	Admin   adminCommand   `cmd:"" help:"Add, change or list accounts of the console, or export a person's data."`
	Key     keyCommand     `cmd:"" help:"Make an API key or another secret."`
	Version versionCommand `cmd:"" help:"Print the version."`
	Help    helpCommand    `cmd:"" help:"Print this list, or explain a command."`
}

// program has what commands need from the process: outputs, environment variables, and the function
// that runs the service.
type program struct {
	out, err io.Writer
	terminal bool // err is a terminal
	environ  []string
	serve    func(context.Context, config.Config, app.ReloadOptions, *slog.Logger, io.Writer) error // app.Run, except in tests
}

func main() {
	p := program{out: os.Stdout, err: os.Stderr, terminal: isTerminal(os.Stderr), environ: os.Environ(), serve: app.Run}
	app.TuneGC()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(p.run(contextUntilSignal(signals, os.Exit), os.Args[1:], os.Exit))
}

// run executes one command line and returns the exit code. For a help flag, kong calls exit, and
// run does not return.
func (p program) run(ctx context.Context, args []string, exit func(int)) int {
	if len(args) > 0 && args[0] == "copy" {
		_, _ = fmt.Fprintln(p.err, "sendcode: copy is now called move, which says that the file is no longer used after it")
		args = append([]string{"move"}, args[1:]...)
	}
	parser := kong.Must(&commandLine{},
		kong.Name("sendcode"),
		kong.Description(
			"Sends verification codes within the limits you set, and checks them. Settings come from SENDCODE_… variables "+
				"and a file; docs/configuration.md explains them."),
		kong.Writers(p.out, p.err), kong.Exit(exit),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(p), kong.BindToProvider(p.loadConfig),
	)
	line, err := parser.Parse(args)
	if err != nil {
		p.printMistake(parser, args, err)
		return exitCode(args, exitUsage)
	}
	if err := line.Run(); err != nil {
		_, _ = fmt.Fprintln(p.err, "sendcode:", err)
		return exitCode(args, 1)
	}
	return 0
}

// exitCode returns the exit code for a failure. For the command bounce, exitCode returns 75
// (EX_TEMPFAIL of sysexits.h), so that the mail server tries again later. After any other code, a
// mail server would send a bounce of the bounce, or drop the mail.
func exitCode(args []string, code int) int {
	if len(args) > 0 && args[0] == "bounce" {
		return 75
	}
	return code
}

// exitUsage is the exit code for a command line that is not understood. Shells use the same code.
const exitUsage = 2

// printMistake prints the mistake in a command line. Then it prints the list of commands, or the
// usage of the command.
func (p program) printMistake(parser *kong.Kong, args []string, err error) {
	text, node := err.Error(), parser.Model.Node
	if mistake, ok := errors.AsType[*kong.ParseError](err); ok && mistake.Context.Selected() != nil &&
		len(mistake.Context.Args) > 0 {
		// If args name no command, kong selects the default command, whose usage would not help.
		if selected := mistake.Context.Selected(); mistake.Context.Args[0] == selected.Name {
			node = selected
		}
	}
	var names []string
	for _, c := range parser.Model.Children {
		names = append(names, c.Name)
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") && !slices.Contains(names, args[0]) {
		text = "there is no command " + document.Printable(args[0]) + document.DidYouMean(args[0], names)
	}
	_, _ = fmt.Fprintln(p.err, "sendcode: error:", text)
	if node == parser.Model.Node {
		for _, c := range node.Children {
			_, _ = fmt.Fprintf(p.err, "  %-8s %s\n", c.Name, c.Help)
		}
		return
	}
	_, _ = fmt.Fprintln(p.err, "usage:", node.Summary())
	for _, v := range node.Positional {
		_, _ = fmt.Fprintf(p.err, "  %s: %s\n", v.Summary(), v.Help)
	}
}

// contextUntilSignal returns a context that ends when the first signal arrives, so that the program
// can finish its work before it stops. If the first signal is SIGINT, the context's cause is
// app.ErrInterrupted. The second signal ends the program at once.
func contextUntilSignal(signals <-chan os.Signal, exit func(int)) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		if <-signals == os.Interrupt {
			cancel(app.ErrInterrupted)
		}
		cancel(nil)
		code := 1
		if s, ok := (<-signals).(syscall.Signal); ok {
			code = 128 + int(s)
		}
		exit(code)
	}()
	return ctx
}

// isTerminal reports whether a file is a terminal or another character device, such as /dev/null.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
