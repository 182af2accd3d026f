package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"sendcode/internal/run/app"
	checks "sendcode/internal/run/app/doctor"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"

	"github.com/alecthomas/kong"
)

type serveCommand struct {
	Wait time.Duration `default:"60s" help:"How long to wait at the start if the database or Redis does not answer, or another process uses the data directory. With 0s the service tries once, and starts even without Redis."`

	HoldUntil time.Time `placeholder:"INSTANT" help:"After a restore, send no code before this time, such as 2026-11-23T18:00:00Z, at most 48 hours ahead. Everything else works."`

	DebugAddr string `placeholder:"ADDR" help:"Serve Go's profiles at this address of this machine, such as 127.0.0.1:6060, below /debug/pprof/. Profiles show what is in memory."`
}

// maxHoldUntilDistance bounds how far ahead or how long ago HoldUntil (--hold-until) may be. A past
// time is accepted, because systemd can start the service again with the same command line soon
// after that time.
const maxHoldUntilDistance = 48 * time.Hour

// Validate checks HoldUntil and DebugAddr; kong calls it.
func (c serveCommand) Validate() error {
	switch left := time.Until(c.HoldUntil); {
	case left > maxHoldUntilDistance:
		return fmt.Errorf("--hold-until is more than %v ahead", maxHoldUntilDistance)
	case !c.HoldUntil.IsZero() && left < -maxHoldUntilDistance:
		return fmt.Errorf("--hold-until was more than %v ago: leave it out", maxHoldUntilDistance)
	}
	if c.DebugAddr != "" && config.RequiresHTTPS(c.DebugAddr) {
		return errors.New("--debug-addr must be host:port on this machine: profiles show what is in memory")
	}
	return nil
}

func (c serveCommand) Run(ctx context.Context, p program) error {
	cfg, err := p.loadConfig()
	if err != nil {
		return err
	}
	cfg.StartWait, cfg.HoldUntil, cfg.DebugAddr, cfg.Terminal = c.Wait, c.HoldUntil, c.DebugAddr, p.terminal
	if c.DebugAddr == "" {
		runtime.MemProfileRate = 0 // without an address the heap's profile is never read
	}
	reload, stop := p.reloadOnHangup()
	defer stop()
	logger := p.logger(cfg.LogLevel)
	slog.SetDefault(logger) // for package panics
	return ignoreCanceled(ctx, p.serve(ctx, cfg, reload, logger, p.out))
}

// ignoreCanceled returns nil instead of err if the service ended because ctx ended.
func ignoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// reloadOnHangup makes SIGHUP reload the configuration, except at a terminal. A terminal that is
// closed sends SIGHUP, and then the program must end. At a terminal, the program reloads the
// configuration only when its file changes.
func (p program) reloadOnHangup() (reload app.ReloadOptions, stop func()) {
	reload.Environ = append([]string{}, p.environ...) // never nil, even without variables: nil turns reloading off
	if p.terminal {
		return reload, func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	reload.Hangup = hangups
	return reload, func() { signal.Stop(hangups) }
}

type migrateCommand struct{}

func (migrateCommand) Run(ctx context.Context, p program, cfg config.Config) error {
	return commands.Migrate(ctx, cfg, p.out)
}

type rekeyCommand struct{}

func (rekeyCommand) Run(ctx context.Context, p program, cfg config.Config) error {
	return app.Rekey(ctx, cfg, p.out)
}

type backupCommand struct {
	File        string `arg:"" type:"path" help:"The new file for the copy. With - the command writes a tar archive for restore to standard output."`
	WithSecrets bool   `help:"Also copy the generated secrets of the data directory, to FILE.secrets.yaml or into the archive."`
}

func (b backupCommand) Run(ctx context.Context, p program, cfg config.Config) error {
	defer p.printProgress("backup")()
	if b.File == "-" {
		if out, ok := p.out.(*os.File); ok && isTerminal(out) {
			return errors.New("standard output is a terminal, which cannot hold an archive: name a file or a pipe; " +
				"run docker exec without -t, and docker compose exec with -T")
		}
		progress := io.Discard
		if p.terminal {
			progress = p.err
		}
		return commands.BackupTo(ctx, cfg, p.out, b.WithSecrets, progress)
	}
	return commands.Backup(ctx, cfg, b.File, b.WithSecrets, p.out)
}

type restoreCommand struct {
	File string `arg:"" type:"existingfile" help:"The archive that \"backup -\" wrote. With - the command reads it from standard input."`
}

func (r restoreCommand) Run(ctx context.Context, p program, cfg config.Config) error {
	defer p.printProgress("restore")()
	in := os.Stdin
	if r.File != "-" {
		f, err := os.Open(r.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	return commands.Restore(ctx, cfg, in, p.out)
}

type moveCommand struct {
	To string `required:"" placeholder:"URL" help:"The URL of the database, postgres://…, with the owner of its tables as user. If you set PGPASSWORD or PGPASSFILE, leave the password out."`
}

func (c moveCommand) Run(ctx context.Context, p program, cfg config.Config) error {
	defer p.printProgress("move")()
	return commands.MoveToPostgres(ctx, cfg, c.To, p.out)
}

type initCommand struct{ commands.Installation }

func (i initCommand) Run(p program) error { return commands.Install(i.Installation, os.Stdin, p.out) }

type configCommand struct {
	Example bool `help:"Print instead a file with every setting, its meaning and its default." xor:"instead"`
	Schema  bool `help:"Print instead the JSON Schema of the file, with which editors complete and check settings." xor:"instead"`
}

func (c configCommand) Run(p program) error {
	switch {
	case c.Example:
		_, err := fmt.Fprint(p.out, config.Example)
		return err
	case c.Schema:
		_, err := fmt.Fprint(p.out, config.Schema)
		return err
	}
	cfg, err := p.loadConfig()
	if err != nil {
		return err
	}
	p.printWarnings(cfg)
	_, err = fmt.Fprint(p.out, cfg.YAML())
	return err
}

type doctorCommand struct {
	DKIMSelector string `name:"dkim-selector" placeholder:"SELECTOR" help:"Look up the DKIM key of this selector. In a mail that arrived, the selector follows s= in the header DKIM-Signature."`
	Behind       string `name:"behind" placeholder:"URL" help:"Ask the service through its proxy at this URL which client address arrives. Needs SENDCODE_ADMIN_TOKEN."`
	To           string `name:"to" placeholder:"RECIPIENT" help:"Send a test message to this mail address or phone number. No limit counts it."`
	App          string `name:"app" placeholder:"APP" help:"Send the test message with the title, sender and templates of this app. The default is the first app."`
}

// Validate checks the flags; kong calls it.
func (d doctorCommand) Validate() error {
	if problem := checks.ProxyURLProblem(d.Behind); d.Behind != "" && problem != "" {
		return errors.New("--behind " + problem)
	}
	if _, err := checks.ParseTestRecipient(d.To); d.To != "" && err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	if d.App != "" && d.To == "" {
		return errors.New("--app needs --to, because it names the app of the test message")
	}
	if d.DKIMSelector == "" {
		return nil
	}
	return checks.ValidateSelector(d.DKIMSelector)
}

func (d doctorCommand) Run(ctx context.Context, p program, cfg config.Config) error {
	defer p.printProgress("doctor")()
	cfg.DKIMSelector, cfg.BehindURL, cfg.TestRecipient, cfg.TestApp = d.DKIMSelector, d.Behind, d.To, d.App
	return checks.Examine(ctx, cfg, p.out)
}

// kong also calls loadConfig, for commands whose Run takes a config.Config.
func (p program) loadConfig() (config.Config, error) { return config.Load(p.environ, os.ReadFile) }

func (p program) printWarnings(cfg config.Config) {
	for _, w := range cfg.Warnings {
		_, _ = fmt.Fprintln(p.err, "warning:", w)
	}
}

// logger returns a logger that writes lines for people at a terminal, and JSON elsewhere. Its times
// are in UTC.
func (p program) logger(level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindTime {
			a.Value = slog.TimeValue(a.Value.Time().UTC().Truncate(time.Millisecond))
		}
		return a
	}}
	if p.terminal {
		return slog.New(slog.NewTextHandler(p.err, options))
	}
	return slog.New(slog.NewJSONHandler(p.err, options))
}

type versionCommand struct{}

// Run prints the versions of sendcode and of Go.
func (versionCommand) Run(p program) error {
	return p.println("sendcode " + app.Version() + " " + runtime.Version())
}

type healthCommand struct {
	Addr string `env:"SENDCODE_ADDR" placeholder:"127.0.0.1:8080" help:"The address at which the service listens. The default is that of the settings."`
	Port string `env:"PORT" default:"8080" hidden:""`
}

// Run returns an error unless /readyz answers 200 within three seconds. It ignores mistakes in the
// settings, since a running service keeps its old settings.
func (h healthCommand) Run(ctx context.Context, p program) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	addr, token := p.configuredAddr()
	status, body, err := checks.AskReadiness(ctx, cmp.Or(h.Addr, addr, "127.0.0.1:"+h.Port), token)
	if status == 0 {
		return err
	}
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("not ready: %d %s", status, http.StatusText(status))
	}
	return errors.Join(p.println(strings.TrimSpace(body)), err)
}

// configuredAddr returns the listening address and the token of administrators from the settings.
// It returns "" for both if the settings have a mistake.
func (p program) configuredAddr() (addr, token string) {
	cfg, err := p.loadConfig()
	if err != nil {
		return "", ""
	}
	return cfg.Addr, cfg.AdminToken.Reveal()
}

type bounceCommand struct{ commands.BounceTarget }

// Run posts a mail that came back. A mail server runs this command for each such mail.
func (b bounceCommand) Run(ctx context.Context, p program) error {
	return commands.PostBounce(ctx, b.BounceTarget, p.loadConfig, os.Stdin, p.err)
}

// adminCommand works without a login, for an administrator with a shell who can't log in to the
// console or has no account yet.
type adminCommand struct{ commands.AdminCommand }

// If Run makes a password, it prints the password, which can't be shown again.
func (a adminCommand) Run(ctx context.Context, p program, cfg config.Config) error {
	return commands.ChangeAccount(ctx, cfg, a.AdminCommand, p.out)
}

type keyCommand struct {
	Kind  string `enum:"secret,public,ring,index,webhook,env" default:"secret" help:"What to make. secret: an API key for a back end. public: an API key for browsers. ring: an entry of SENDCODE_SECRET_KEYS. index: SENDCODE_INDEX_KEY. webhook: a secret for SENDCODE_WEBHOOK_SECRETS. env: all secrets of a new installation, as variables to paste."`
	Trust string `enum:"known," default:"" placeholder:"known" help:"With known, every request with this secret key is for a person who is signed in, unless it says otherwise."`
}

// Run prints a new key on the standard output and any advice on the standard error, so that a
// script can use the output as a variable's value. Run does not store the key.
func (k keyCommand) Run(p program) error {
	if k.Trust != "" && k.Kind != string(config.SecretKeyKind) {
		return errors.New("--trust is for --kind secret")
	}
	switch k.Kind {
	case "ring":
		return p.println(config.NewRingKey())
	case "index":
		return p.println(config.NewIndexKey())
	case "webhook":
		_, _ = fmt.Fprintln(p.err, "In SENDCODE_WEBHOOK_SECRETS it stands after the app's name and a colon: default:whsec_…")
		return p.println(config.NewWebhookSecret())
	case "env":
		_, _ = fmt.Fprintln(p.err,
			"Keep these secrets, which are shown only once: with other keys, pending codes are invalid and all counts begin again. "+
				"Also set SENDCODE_DATABASE_URL, SENDCODE_SMTP_URL, SENDCODE_MAIL_FROM and SENDCODE_PUBLIC_URL, and for the widget SENDCODE_ORIGINS.")
		_, err := fmt.Fprint(p.out, config.GenerateSecretVariables())
		return err
	}
	value, sum := config.NewAPIKey(config.KeyKind(k.Kind))
	trust := ""
	if k.Trust != "" {
		trust = ", trust: " + k.Trust
	}
	_, _ = fmt.Fprintf(p.err, "The line for the keys of an app in the file of SENDCODE_CONFIG, unless the key becomes a variable:\n"+
		"- {id: k_%s, kind: %s%s, sha256: \"%s\"}\nThe key, which is shown only once:\n", sum[:8], k.Kind, trust, sum)
	return p.println(value)
}

// printProgress prints a line every 10 s until the caller calls stop, which waits for the last
// line.
func (p program) printProgress(command string) (stop func()) {
	ended, began := make(chan struct{}), time.Now()
	var lines sync.WaitGroup
	lines.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Second):
				_, _ = fmt.Fprintf(p.err, "%s: goes on, %.0f s\n", command, time.Since(began).Seconds())
			}
		}
	})
	return func() {
		close(ended)
		lines.Wait()
	}
}

func (p program) println(text string) error {
	_, err := fmt.Fprintln(p.out, text)
	return err
}

// helpCommand is --help as a command.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command to explain. Without one, all commands are listed."`
}

func (h helpCommand) Run(p program, line *kong.Context) error {
	// If there is no error, Parse has printed the help and called the parser's exit.
	if _, err := line.Kong.Parse(append(h.Command, "--help")); err != nil {
		p.printMistake(line.Kong, h.Command, err)
		line.Kong.Exit(exitUsage)
	}
	return nil
}
