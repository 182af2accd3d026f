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

// newestSQL selects what a holder may still check, among what its recipient was sent lately.
func newestSQL(d dialect) string {
	return `SELECT ` + verificationColumns + ` FROM verifications v
WHERE v.id ` + d.among(`SELECT s.verification_id FROM sends s WHERE s.recipient = $1 AND s.number > 0 AND s.logged_at > $7 AND s.app = $2 AND s.channel = $3 AND s.purpose = $4`) + `
  AND v.recipient = $1 AND v.app = $2 AND v.channel = $3 AND v.purpose = $4 AND v.holder = $5
  AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts AND v.expires_at > $6
ORDER BY v.created_at DESC, v.id DESC LIMIT 1`
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

// Newest implements Log.
func (s *SQLite) Newest(ctx context.Context, h Holding) (Verification, error) {
	if err := h.check(); err != nil {
		return Verification{}, err
	}
	now := micro(s.now())
	v, err := first(ctx, s.readers, (*Verification).fields, newestSQL(sqliteWords), h.Recipient[:], h.App, h.Channel, h.Purpose, h.Holder, µs(now), µs(now.Add(-stale)))
	return v, unavailable(err)
}
