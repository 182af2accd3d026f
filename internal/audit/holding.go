package audit

import (
	"context"
	"time"
)

func (h Holding) check() error {
	if h.Holder == "" || !storable(h.App, string(h.Channel), h.Purpose, h.Holder) {
		return bad("a holding names its holder, app, channel and purpose")
	}
	return nil
}

// holds says whether v is one of the holding's, and still pending.
func (h Holding) holds(v Verification, now time.Time) bool {
	return v.App == h.App && v.Channel == h.Channel && v.Recipient == h.Recipient && v.Purpose == h.Purpose && v.Holder == h.Holder && pending(v, now)
}

// Newest implements Log.
func (m *Memory) Newest(ctx context.Context, h Holding) (newest Verification, err error) {
	if err := h.check(); err != nil {
		return Verification{}, err
	}
	now, lost, err := m.enter(ctx, "Newest")
	if err != nil {
		return Verification{}, err
	}
	defer m.leave(lost, &err)
	for _, v := range m.verifications {
		if h.holds(*v, now) && (newest.ID == "" || newer(*v, newest)) {
			newest = m.verification(v.ID)
		}
	}
	if newest.ID == "" {
		return newest, ErrNotFound
	}
	return newest, nil
}
