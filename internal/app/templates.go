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

// templateDirs returns the directories, without empty names, whose files replace built-in templates; later ones take precedence.
func templateDirs(directories ...string) (trees []fs.FS) {
	for _, d := range directories {
		if d != "" {
			trees = append(trees, os.DirFS(d))
		}
	}
	return trees
}

func (a *App) renderer(own ...string) (*message.Renderer, error) {
	return message.New(templates.FS, templateDirs(append([]string{a.cfg.Templates}, own...)...)...)
}

func (a *App) textRenderer(own ...string) (*message.Texts, error) {
	limits := message.TextLimits{
		Segments: a.cfg.SMS.Segments, Origin: a.cfg.SMS.Origin, Measure: sms.Segments,
	}
	return message.NewTexts(limits, templates.FS, templateDirs(append([]string{a.cfg.Templates}, own...)...)...)
}

// ownTemplates are what apps have of their own, read and tried.
type ownTemplates struct {
	mails map[string]*message.Renderer
	texts map[string]*message.Texts
}

// readOwnTemplates reads the templates of a configuration's apps. It fails if rendering one fails, or a text message would have too many
// segments.
func (a *App) readOwnTemplates(cfg config.Config) (own ownTemplates, err error) {
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

// useTemplates makes later messages use these templates.
func (a *App) useTemplates(own ownTemplates) {
	a.mails.SetApps(own.mails)
	if a.texts != nil {
		a.texts.SetApps(own.texts)
	}
}
