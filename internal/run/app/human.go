package app

import (
	"context"
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
	vendorBounds  *vendors.Bounds                     // nil until the start has put checks in force
}

type vendorInUse struct {
	vendors.Config
	client *vendors.Verifier
	stop   context.CancelFunc // ends the client's probes
}

// useHumanChecks puts the checks of cfg in force. It keeps a vendor whose settings are unchanged.
func (a *App) useHumanChecks(cfg config.Config) error {
	checks, used := map[string]humancheck.Check{}, map[string]vendorInUse{}
	if a.vendorBounds == nil {
		a.vendorBounds = vendors.NewBounds(a.core.Gates)
		a.metrics.RegisterHumanCheckVendors(a.vendorHealth)
		a.onClose(a.stopVendors)
	}
	for _, app := range cfg.Apps {
		c, asks := app.HumanCheck.HumanCheck()
		if !asks {
			continue
		}
		vendor := humancheck.ByWork
		if settings, ok := app.HumanCheck.Vendor(app.Origins); ok {
			v := a.vendors[app.Name]
			if !reflect.DeepEqual(v.Config, settings) {
				client, err := vendors.New(settings, app.Name, a.vendorBounds, a.logVendor)
				if err != nil {
					return err
				}
				v = vendorInUse{Config: settings, client: client}
				var ctx context.Context
				ctx, v.stop = context.WithCancel(context.Background())
				go func() {
					defer panics.Recover(panics.Other)
					client.Watch(ctx)
				}()
			}
			c.Vendor, used[app.Name], vendor = v.client, v, settings.By
		}
		checks[app.Name] = c
		a.metrics.InitHumanChecks(app.Name, vendor)
	}
	a.core.Codes.SetHumanChecks(checks)
	for name, v := range a.vendors {
		if used[name].client != v.client {
			v.stop()
		}
	}
	a.vendors = used
	var clients []*vendors.Verifier
	for _, v := range used {
		clients = append(clients, v.client)
	}
	a.vendorClients.Store(&clients)
	return nil
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
