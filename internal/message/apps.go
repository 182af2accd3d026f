package message

import "sync/atomic"

// own are the renderers of apps that have templates of their own, by app. R is what embeds it.
type own[R any] struct {
	apps atomic.Pointer[map[string]*R]
}

// SetApps gives apps templates of their own, in place of those that SetApps gave before. Messages under way end as they began.
func (o *own[R]) SetApps(apps map[string]*R) { o.apps.Store(&apps) }

// of is the renderer of an app, or the one for all that have none.
func (o *own[R]) of(app string, all *R) *R {
	if apps := o.apps.Load(); apps != nil && (*apps)[app] != nil {
		return (*apps)[app]
	}
	return all
}
