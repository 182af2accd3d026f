package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"sendcode/internal/config"
	"sendcode/internal/metrics"
)

// Reload says how the configuration is read again while the service runs. With the zero value it never is.
type Reload struct {
	Environ []string         // as at the start
	Hangup  <-chan os.Signal // has it read at once; nil: only a change of its file does
}

// look is the time between two looks at the file. What it holds is read there, not when it was changed: that sees files that
// were replaced, and the links that Kubernetes turns.
const look = time.Second

// reloader is the App while it serves, with what it goes by now. One goroutine has it.
type reloader struct {
	*App
	now config.Config
}

// watchConfig reloads the configuration when it is told to or its file has changed, until ctx ends.
func (a *App) watchConfig(ctx context.Context) {
	if a.again.Environ == nil {
		return
	}
	r := &reloader{App: a, now: a.cfg}
	file := watched{name: a.cfg.File, read: readFile}
	looks := time.NewTicker(look)
	defer looks.Stop()
	for first := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-a.again.Hangup:
			r.reload(ctx, readFile, false)
		case <-looks.C:
			if read := file.look(); read != nil {
				r.reload(ctx, read, first)
				first = false
			}
		}
	}
}

// watched is the file of the configuration.
type watched struct {
	name         string
	read         func(string) ([]byte, error)
	seen, loaded [sha256.Size]byte
}

// look returns a function that reads the file, if the contents are new and equal to those of the look before, so that a file that
// is being written is not read; else nil. The first contents count as new, since the file may have changed during the start.
func (w *watched) look() func(string) ([]byte, error) {
	if w.name == "" {
		return nil
	}
	content, err := w.read(w.name)
	now := sha256.Sum256(fmt.Appendf(content, "\x00%v", err))
	before := w.seen
	w.seen = now
	if now != before || now == w.loaded {
		return nil
	}
	w.loaded = now
	return func(name string) ([]byte, error) {
		if name == w.name {
			return content, err
		}
		return w.read(name)
	}
}

// readFile reads a file, but not a pipe, which was read at the start and would block.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file, and can be read only once")
	}
	return os.ReadFile(name)
}

// reload loads the configuration and applies the settings that can change while the service runs. With any mistake nothing changes.
// The first reload logs nothing if the file is as it was at the start.
func (r *reloader) reload(ctx context.Context, read func(string) ([]byte, error), first bool) {
	renewed, own, fixed, err := r.load(read)
	if err != nil {
		r.metrics.Reloaded(metrics.Rejected)
		r.logMistakes(err)
		return
	}
	for _, name := range fixed {
		r.logger.Warn("a changed setting needs a restart", "setting", name)
	}
	changed := r.now.Differs(renewed)
	switch {
	case len(changed) > 0:
		r.apply(ctx, renewed, own)
		r.metrics.Reloaded(metrics.Applied)
		r.logger.Info("the configuration was read again and is in force", "changed", changed)
	case !first || len(fixed) > 0:
		r.metrics.Reloaded(metrics.Unchanged)
		r.logger.Info("the configuration was read again; no changes")
	}
}

// load reads and checks the configuration as at the start. fixed are the changed settings that need a restart.
func (r *reloader) load(read func(string) ([]byte, error)) (renewed config.Config, own ownTemplates, fixed []string, err error) {
	next, err := config.Load(r.again.Environ, read)
	if err != nil {
		return config.Config{}, own, nil, err
	}
	renewed = r.now.Renewed(next)
	own, err = r.readOwnTemplates(renewed)
	return renewed, own, r.given.Fixed(next), err
}

// logMistakes logs every mistake of a configuration in its own line.
func (r *reloader) logMistakes(err error) {
	const what = "the configuration was read again and rejected; nothing has changed"
	all, ok := errors.AsType[*config.Errors](err)
	if !ok {
		r.logger.Error(what, "mistake", err)
		return
	}
	for _, m := range all.Mistakes {
		r.logger.Error(what, "where", m.Where, "mistake", m.Text)
	}
}

// apply puts a checked configuration in force. Requests under way end by the old one.
func (r *reloader) apply(ctx context.Context, renewed config.Config, own ownTemplates) {
	before := r.now
	r.now = renewed
	for _, w := range renewed.Warnings {
		if !slices.Contains(before.Warnings, w) {
			r.logger.Warn(w)
		}
	}
	r.useTemplates(own)
	wider := r.policy.Change(policies(renewed))
	r.hooks.Change(receivers(renewed))
	r.limits.SetLimits(limitSet(renewed))
	r.api.SetKeys(apiKeys(renewed))
	r.requests.SetLimit(renewed.RequestsPerMinute)
	if r.page != nil {
		r.updatePage(r.now)
	}
	if wider {
		if err := r.rebuild(ctx); err != nil { // the log decides right without it; only looks may promise too much
			r.logger.Warn("the limiter was not told of sends that it had forgotten", "error", err)
		}
	}
}
