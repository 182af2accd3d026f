package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/run/config"
	"sendcode/internal/run/metrics"
)

// ReloadOptions say how the running service reloads its configuration. The zero value turns
// reloading off.
type ReloadOptions struct {
	Environ []string         // the environment at the start; nil: there are no reloads
	Hangup  <-chan os.Signal // each signal reloads at once; nil: only a change of the file reloads
}

// fileCheckEvery is the time between two reads of the file. watchedFile compares the contents, not
// the times of change, so that it also notices a replaced file, and a symbolic link that Kubernetes
// changes.
const fileCheckEvery = time.Second

// reloader is used by one goroutine.
type reloader struct {
	*App
	current config.Config
	ends    time.Time // when the next of current's stops ends; zero: no stop ends
}

func (a *App) watchConfig(ctx context.Context) {
	if a.reload.Environ == nil {
		return
	}
	r := &reloader{App: a, current: a.cfg, ends: a.cfg.NextStopEnd(a.started)}
	file := watchedFile{name: a.cfg.File, read: readRegularFile}
	looks := time.NewTicker(fileCheckEvery)
	defer looks.Stop()
	for first := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-a.reload.Hangup:
			r.reloadFrom(ctx, readRegularFile, false)
		case <-looks.C:
			r.endStops(a.now())
			if read := file.readerIfChanged(); read != nil {
				r.reloadFrom(ctx, read, first)
				first = false
			}
		}
	}
}

// endStops puts in force a policy set without the stops that have ended.
func (r *reloader) endStops(now time.Time) {
	defer panics.Recover(panics.Other)
	if r.ends.IsZero() || now.Before(r.ends) {
		return
	}
	r.core.Policy.Change(r.current.PolicySet(now))
	r.ends = r.current.NextStopEnd(now)
	r.logger.Info("stop ended")
}

// watchedFile is the configuration file, with the hashes of its contents when it was last read and
// last loaded.
type watchedFile struct {
	name             string
	read             func(string) ([]byte, error)
	lastSeen, loaded [sha256.Size]byte
}

// readerIfChanged returns a function through which config.Load can read new contents. It returns
// nil if config.Load already got these contents. It also returns nil if the previous call read
// other contents, because the file may be half-written. The contents of the first call are loaded,
// too, although the service has just started with the file: it may have changed since.
func (w *watchedFile) readerIfChanged() func(string) ([]byte, error) {
	if w.name == "" {
		return nil
	}
	content, err := w.read(w.name)
	now := sha256.Sum256(fmt.Appendf(content, "\x00%v", err))
	before := w.lastSeen
	w.lastSeen = now
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

// readRegularFile refuses a pipe: the start has emptied it, so a read would block.
func readRegularFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file, and can be read only once")
	}
	return os.ReadFile(name)
}

// reloadFrom applies the settings that can change while the service runs. If the configuration has
// a mistake, nothing changes. first is true for the first load that readerIfChanged causes, which
// comes even without a change: then nothing is logged.
func (r *reloader) reloadFrom(ctx context.Context, read func(string) ([]byte, error), first bool) {
	defer panics.Recover(panics.Other, func() { r.metrics.ConfigReloaded(metrics.ReloadRejected) })
	renewed, own, needRestart, err := r.load(read)
	if err != nil {
		r.metrics.ConfigReloaded(metrics.ReloadRejected)
		r.logMistakes(err)
		return
	}
	for _, name := range needRestart {
		r.logger.Warn("changed setting needs a restart", "setting", name, logs.SeeConfiguration)
	}
	changed := r.current.ReloadableChanges(renewed)
	switch {
	case len(changed) > 0:
		r.apply(ctx, renewed, own)
		r.metrics.ConfigReloaded(metrics.ReloadApplied)
		r.logger.Info("configuration reloaded", "changed", changed)
	case !first || len(needRestart) > 0:
		r.metrics.ConfigReloaded(metrics.ReloadUnchanged)
		r.logger.Info("configuration reloaded without changes")
	}
}

// load loads the configuration as a start does, and the templates of its apps. needRestart names
// the changed settings that need a restart.
func (r *reloader) load(read func(string) ([]byte, error)) (renewed config.Config, own appTemplates,
	needRestart []string, err error,
) {
	next, err := config.Load(r.reload.Environ, read)
	if err != nil {
		return config.Config{}, own, nil, err
	}
	if err = r.current.CheckNothingLost(next); err != nil {
		return config.Config{}, own, nil, err
	}
	renewed = r.current.WithReloadable(next)
	if err = renewed.CheckKeptNames(); err == nil {
		own, err = r.readAppTemplates(renewed)
	}
	return renewed, own, r.loaded.RestartChanges(next), err
}

func (r *reloader) logMistakes(err error) {
	const what = "configuration reload rejected: nothing changed"
	all, ok := errors.AsType[*config.Errors](err)
	if !ok {
		r.logger.Error(what, "error", err, logs.SeeConfiguration)
		return
	}
	for _, m := range all.Mistakes {
		r.logger.Error(what, "setting", m.Where, "error", m.Text, logs.SeeConfiguration)
	}
}

// apply puts a checked configuration in force. Requests that have begun use the old one to their
// end.
func (r *reloader) apply(ctx context.Context, renewed config.Config, own appTemplates) {
	before := r.current
	r.current = renewed
	r.storeSettingsHash(renewed)
	for _, w := range renewed.Warnings {
		if !slices.Contains(before.Warnings, w) {
			r.logger.Warn(w)
		}
	}
	r.useTemplates(own)
	now := r.now()
	r.core.Policy.Change(renewed.PolicySet(now))
	r.ends = renewed.NextStopEnd(now)
	r.core.Webhooks.ChangeSettings(webhookSettings(renewed))
	r.core.Limits.SetLimits(limitSet(renewed))
	if err := r.useHumanChecks(renewed); err != nil {
		r.logger.Error("human checks stay as they are", "error", err, logs.SeeConfiguration)
	}
	r.initCountersOfApps(renewed)
	r.api.SetKeys(apiKeys(renewed))
	r.requests.SetLimit(renewed.RequestsPerMinute)
	if r.page != nil {
		r.configurePage(r.current)
	}
}
