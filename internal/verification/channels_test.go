package verification_test

import (
	"testing"

	vtest "sendcode/internal/verification/verificationtest"
)

// A widget asks for the channels when it starts, and so hears of a purpose that is not configured before a person types anything.
func TestChannelsOfAnUnknownPurpose(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		for _, known := range []string{"", "default"} {
			if offers, err := r.Svc.Channels(known); err != nil || len(offers) == 0 {
				t.Errorf("%q: %v, %v", known, offers, err)
			}
		}
		_, err := r.Svc.Channels("nothing")
		r.WantInvalid(err, "purpose", "unknown")
	})
}
