package app

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/run/config"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/humancheck/vendors"
)

type humanChecks struct {
	vendors       map[string]vendorInUse              // by app
	vendorClients atomic.Pointer[[]*vendors.Verifier] // the vendors' clients, for scrapes of the metrics
	vendorBounds  *vendors.Bounds                     // nil until the first checks are prepared
}

type vendorInUse struct {
	vendors.Config
	client *vendors.Verifier
	stop   context.CancelFunc // ends the client's probes; nil: they have not begun
}

// preparedHumanChecks are the checks of one configuration, by app.
type preparedHumanChecks struct {
	checks  map[string]humancheck.Check
	vendors map[string]vendorInUse
}

// prepareHumanChecks starts nothing, so the result may be dropped. It keeps a vendor whose settings
// are unchanged.
func (a *App) prepareHumanChecks(cfg config.Config) (preparedHumanChecks, error) {
	p := preparedHumanChecks{map[string]humancheck.Check{}, map[string]vendorInUse{}}
	if a.vendorBounds == nil {
		a.vendorBounds = vendors.NewBounds(a.core.Gates)
	}
	for _, app := range cfg.Apps {
		c, asks := app.HumanCheck.HumanCheck()
		if !asks {
			continue
		}
		if settings, ok := app.HumanCheck.Vendor(app.Origins); ok {
			v := a.vendors[app.Name]
			if !reflect.DeepEqual(v.Config, settings) {
				client, err := vendors.New(settings, app.Name, a.vendorBounds, a.logVendor)
				if err != nil {
					return p, fmt.Errorf("the app %q: %w", app.Name, err)
				}
				v = vendorInUse{Config: settings, client: client}
			}
			c.Vendor, p.vendors[app.Name] = v.client, v
		}
		p.checks[app.Name] = c
	}
	return p, nil
}

// useHumanChecks puts the checks in force, and replaces the probes of the vendors before.
func (a *App) useHumanChecks(p preparedHumanChecks) {
	for app := range p.checks {
		a.metrics.InitHumanChecks(app, cmp.Or(p.vendors[app].By, humancheck.ByWork))
	}
	a.core.Codes.SetHumanChecks(p.checks)
	var clients []*vendors.Verifier
	for name, v := range p.vendors {
		clients = append(clients, v.client)
		if v.stop == nil {
			var ctx context.Context
			ctx, v.stop = context.WithCancel(context.Background())
			p.vendors[name] = v
			go func() {
				defer panics.Recover(panics.Other)
				v.client.Watch(ctx)
			}()
		}
	}
	for name, v := range a.vendors {
		if p.vendors[name].client != v.client {
			v.stop()
		}
	}
	a.vendors = p.vendors
	a.vendorClients.Store(&clients)
}

func (a *App) vendorHealth() []delivery.Health {
	var all []delivery.Health
	if clients := a.vendorClients.Load(); clients != nil {
		for _, c := range *clients {
			all = append(all, c.Health())
		}
	}
	return all
}

func (a *App) logVendor(h delivery.Health) {
	if h.Up {
		a.logger.Info("vendor of human checks in use again", "vendor", h.Server)
		return
	}
	a.logger.Warn("vendor of human checks suspended after failures", "vendor", h.Server, "reason", h.Why, logs.SeeHumanChecks)
}

func (a *App) stopVendors() error {
	for _, v := range a.vendors {
		v.stop()
	}
	return nil
}
