package app

import (
	"fmt"
	"io/fs"
	"os"

	"sendcode/internal/config"
	"sendcode/internal/message"
	"sendcode/internal/sms"
	"sendcode/templates"
)

// overrides are the directories whose files replace built-in ones, the later the stronger.
func overrides(directories ...string) (trees []fs.FS) {
	for _, d := range directories {
		if d != "" {
			trees = append(trees, os.DirFS(d))
		}
	}
	return trees
}

func (a *App) renderer(own ...string) (*message.Renderer, error) {
	return message.New(templates.FS, overrides(append([]string{a.cfg.Templates}, own...)...)...)
}

func (a *App) textRenderer(own ...string) (*message.Texts, error) {
	limits := message.TextLimits{
		Segments: a.cfg.SMS.Segments, Origin: a.cfg.SMS.Origin, Measure: func(text string) int { return sms.Measure(text).Segments },
	}
	return message.NewTexts(limits, templates.FS, overrides(append([]string{a.cfg.Templates}, own...)...)...)
}

// ownTemplates are what apps have of their own, read and tried.
type ownTemplates struct {
	mails map[string]*message.Renderer
	texts map[string]*message.Texts
}

// templatesOf reads the templates of a configuration's apps, and finds what would fail, or cost more than it may, at every send.
func (a *App) templatesOf(cfg config.Config) (own ownTemplates, err error) {
	own = ownTemplates{mails: map[string]*message.Renderer{}, texts: map[string]*message.Texts{}}
	for _, app := range cfg.Apps {
		if app.Templates == "" {
			continue
		}
		if own.mails[app.Name], err = a.renderer(app.Templates); err == nil && a.texts != nil {
			own.texts[app.Name], err = a.textRenderer(app.Templates)
		}
		if err != nil {
			return own, fmt.Errorf("the app %q: %w", app.Name, err)
		}
	}
	return own, a.checkTexts(cfg, own.texts)
}

// use has messages made of them from now on.
func (a *App) use(own ownTemplates) {
	a.mails.SetApps(own.mails)
	if a.texts != nil {
		a.texts.SetApps(own.texts)
	}
}
