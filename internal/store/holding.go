package store

import ()

func (h Holding) Check() error {
	if h.Holder == "" || !Storable(h.App, string(h.Channel), h.Purpose, h.Holder) {
		return Bad("a holding names its holder, app, channel and purpose")
	}
	return nil
}
