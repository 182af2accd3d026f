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
			r.reloadFrom(readRegularFile, false)
		case <-looks.C:
			r.endStops(a.now())
			if read := file.readerIfChanged(); read != nil {
				r.reloadFrom(read, first)
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
// a mistake, nothing changes: load does all that can fail. first is true for the first load that
// readerIfChanged causes, which comes even without a change: then nothing is logged.
func (r *reloader) reloadFrom(read func(string) ([]byte, error), first bool) {
	defer panics.Recover(panics.Other, func() {
		r.metrics.ConfigReloaded(metrics.ReloadRejected)
		r.logger.Error("configuration reload interrupted: some changes may be in force; reload again", logs.SeeDefect)
	})
	renewed, needRestart, err := r.load(read)
	if err != nil {
		r.metrics.ConfigReloaded(metrics.ReloadRejected)
		r.logMistakes(err)
		return
	}
	for _, name := range needRestart {
		r.logger.Warn("changed setting needs a restart", "setting", name, logs.SeeConfiguration)
	}
	changed := r.current.ReloadableChanges(renewed.Config)
	switch {
	case len(changed) > 0:
		r.apply(renewed)
		r.metrics.ConfigReloaded(metrics.ReloadApplied)
		r.logger.Info("configuration reloaded", "changed", changed)
	case !first || len(needRestart) > 0: // the templates may have changed nevertheless
		r.useTemplates(renewed.templates)
		if r.page != nil {
			r.configurePage(r.current) // which has the subjects of mails
		}
		r.metrics.ConfigReloaded(metrics.ReloadUnchanged)
		r.logger.Info("configuration reloaded without changes of settings; the templates of apps were read again")
	}
}

// loadedConfig is a checked configuration with what is made of it and could fail.
type loadedConfig struct {
	config.Config
	templates appTemplates
	checks    preparedHumanChecks
}

// load loads the configuration as a start does, with the templates and human checks of its apps.
// needRestart names the changed settings that need a restart.
func (r *reloader) load(read func(string) ([]byte, error)) (renewed loadedConfig, needRestart []string, err error) {
	next, err := config.Load(r.reload.Environ, read)
	if err != nil {
		return renewed, nil, err
	}
	if err = r.current.CheckNothingLost(next); err != nil {
		return renewed, nil, err
	}
	renewed.Config = r.current.WithReloadable(next)
	if err = renewed.CheckKept(); err == nil {
		renewed.templates, err = r.readAppTemplates(renewed.Config)
	}
	if err == nil {
		renewed.checks, err = r.prepareHumanChecks(renewed.Config)
	}
	return renewed, r.loaded.RestartChanges(next), err
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

// apply puts a loaded configuration in force. Requests that have begun use the old one to their
// end. Nothing here returns an error. After a panic, current is the old configuration, so that
// another reload of the same file applies all of it.
func (r *reloader) apply(renewed loadedConfig) {
	for _, w := range renewed.Warnings {
		if !slices.Contains(r.current.Warnings, w) {
			r.logger.Warn(w)
		}
	}
	r.useTemplates(renewed.templates)
	now := r.now()
	r.core.Policy.Change(renewed.PolicySet(now))
	r.core.Webhooks.ChangeSettings(webhookSettings(renewed.Config))
	r.core.Limits.SetLimits(limitSet(renewed.Config))
	r.useHumanChecks(renewed.checks)
	r.initCountersOfApps(renewed.Config)
	r.api.SetKeys(apiKeys(renewed.Config))
	r.requests.SetLimit(renewed.RequestsPerMinute)
	if r.page != nil {
		r.configurePage(renewed.Config)
	}
	r.storeSettingsHash(renewed.Config)
	r.current, r.ends = renewed.Config, renewed.NextStopEnd(now)
}
