package app

import (
	"context"
	"reflect"

	"sendcode/internal/run/config"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/humancheck/vendors"
)

// vendorInUse is the vendor of an app's human check.
type vendorInUse struct {
	vendors.Config
	client *vendors.Client
	stop   context.CancelFunc // ends its probes
}

// useHumanChecks puts the human checks of a configuration in force. A vendor whose settings are as before stays as it is.
func (a *App) useHumanChecks(cfg config.Config) error {
	checks, used := map[string]humancheck.Check{}, map[string]vendorInUse{}
	if a.vendorBounds == nil {
		a.vendorBounds = vendors.NewBounds(a.core.Gates)
	}
	for _, app := range cfg.Apps {
		c, asks := app.HumanCheckOf()
		if !asks {
			continue
		}
		by := humancheck.ByWork
		if settings, ok := app.HumanCheckVendor(); ok {
			v := a.vendors[app.Name]
			if !reflect.DeepEqual(v.Config, settings) {
				client, err := vendors.New(settings, app.Name, a.vendorBounds, a.healthLogger("vendor of human checks", "vendor"))
				if err != nil {
					return err
				}
				v = vendorInUse{Config: settings, client: client}
				var ctx context.Context
				ctx, v.stop = context.WithCancel(context.Background())
				go client.Watch(ctx)
			}
			c.Vendor, used[app.Name], by = v.client, v, settings.By
		}
		checks[app.Name] = c
		a.metrics.InitHumanChecks(app.Name, by)
	}
	a.core.Codes.SetHumanChecks(checks)
	for name, v := range a.vendors {
		if used[name].client != v.client {
			v.stop()
		}
	}
	a.vendors = used
	return nil
}

// stopVendors ends the probes of all vendors.
func (a *App) stopVendors() error {
	for _, v := range a.vendors {
		v.stop()
	}
	return nil
}
