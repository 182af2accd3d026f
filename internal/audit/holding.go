package audit

func (h Holding) check() error {
	if h.Holder == "" || !storable(h.App, string(h.Channel), h.Purpose, h.Holder) {
		return bad("a holding names its holder, app, channel and purpose")
	}
	return nil
}
