package message

import "sync/atomic"

// own holds the renderers of apps with their own templates, by app. R is the renderer type that embeds it.
type own[R any] struct {
	apps atomic.Pointer[map[string]*R]
}

// SetApps replaces the renderers of apps with their own templates. Messages that are being rendered are not affected.
func (o *own[R]) SetApps(apps map[string]*R) { o.apps.Store(&apps) }

// of returns the renderer of an app, or all if the app has no own templates.
func (o *own[R]) of(app string, all *R) *R {
	if apps := o.apps.Load(); apps != nil && (*apps)[app] != nil {
		return (*apps)[app]
	}
	return all
}
