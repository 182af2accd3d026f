package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sendcode/internal/app"
	"sendcode/internal/config"
)

type serve struct{}

func (serve) Run(ctx context.Context, p program, cfg config.Config) error {
	again, stop := p.reload()
	defer stop()
	return unlessAsked(ctx, p.serve(ctx, cfg, again, p.logger(cfg.LogLevel), p.out))
}

// unlessAsked is the error of a service that ended, but for one that was asked to stop.
func unlessAsked(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// reload has SIGHUP read the configuration again. Not at a terminal: closing it sends the same signal, and must end
// the program; a change of the file is seen there too.
func (p program) reload() (again app.Reload, stop func()) {
	again.Environ = append([]string{}, p.environ...) // never nil
	if p.terminal {
		return again, func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	again.Hangup = hangups
	return again, func() { signal.Stop(hangups) }
}

type showcase struct {
	Addr string `default:"127.0.0.1:8080" help:"Where the page, the mailbox and the console listen: an address of this machine."`
}

func (d showcase) Run(ctx context.Context, p program) error {
	return unlessAsked(ctx, p.demo(ctx, d.Addr, p.logger(slog.LevelWarn), p.out))
}

type migrate struct{}

func (migrate) Run(ctx context.Context, p program, cfg config.Config) error {
	return p.migrate(ctx, cfg)
}

type show struct {
	Example bool `help:"Print a file with every setting, what it means and what holds by default, instead."`
}

func (s show) Run(p program) error {
	if s.Example {
		_, err := fmt.Fprint(p.out, config.Example)
		return err
	}
	cfg, err := p.load()
	if err != nil {
		return err
	}
	p.warn(cfg)
	_, err = fmt.Fprint(p.out, cfg.YAML())
	return err
}

type doctor struct{}

func (doctor) Run(ctx context.Context, p program, cfg config.Config) error {
	p.warn(cfg)
	return p.doctor(ctx, cfg, p.out)
}

// load has kong give the configuration to the commands that take one.
func (p program) load() (config.Config, error) { return config.Load(p.environ, os.ReadFile) }

func (p program) warn(cfg config.Config) {
	for _, w := range cfg.Warnings {
		_, _ = fmt.Fprintln(p.err, "warning:", w)
	}
}

// logger writes lines for people at a terminal and JSON elsewhere, with times in UTC (OPS-8).
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
