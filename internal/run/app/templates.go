package app

import (
	"fmt"
	"io/fs"
	"os"

	"sendcode/internal/base/message"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/run/config"
	"sendcode/templates"
)

// templateTrees returns the directories whose files replace built-in templates: the service's, then
// the app's, which takes precedence. An empty name adds no directory.
func templateTrees(cfg config.Config, appDirectory string) (trees []fs.FS) {
	for _, d := range []string{cfg.Templates, appDirectory} {
		if d != "" {
			trees = append(trees, os.DirFS(d))
		}
	}
	return trees
}

// NewMailRenderer reads the templates of mails. appDirectory may be empty.
func NewMailRenderer(cfg config.Config, appDirectory string) (*message.MailRenderer, error) {
	r, err := message.NewMailRenderer(templates.FS, templateTrees(cfg, appDirectory)...)
	if err == nil {
		r.Site = cfg.PageHost()
	}
	return r, err
}

// NewTextRenderer reads the templates of text messages. appDirectory may be empty.
func NewTextRenderer(cfg config.Config, appDirectory string) (*message.TextRenderer, error) {
	limits := message.TextLimits{Segments: cfg.SMS.Segments, Site: cfg.PageHost(), Measure: sms.Segments}
	return message.NewTextRenderer(limits, templates.FS, templateTrees(cfg, appDirectory)...)
}

type appTemplates struct {
	mails map[string]*message.MailRenderer
	texts map[string]*message.TextRenderer
}

// readAppTemplates reads and checks the templates of the apps that have their own. It fails if a
// template can't be rendered, or if checkTexts fails.
func (a *App) readAppTemplates(cfg config.Config) (own appTemplates, err error) {
	own = appTemplates{mails: map[string]*message.MailRenderer{}, texts: map[string]*message.TextRenderer{}}
	for _, app := range cfg.Apps {
		if app.Templates == "" {
			continue
		}
		if own.mails[app.Name], err = NewMailRenderer(a.cfg, app.Templates); err == nil && a.texts != nil {
			own.texts[app.Name], err = NewTextRenderer(a.cfg, app.Templates)
		}
		if err != nil {
			return own, fmt.Errorf("the app %q: %w", app.Name, err)
		}
	}
	return own, a.checkTexts(cfg, own.texts)
}

func (a *App) useTemplates(own appTemplates) {
	a.mails.SetApps(own.mails)
	if a.texts != nil {
		a.texts.SetApps(own.texts)
	}
}
