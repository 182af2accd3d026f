package support_test

import (
	"testing"

	vtest "sendcode/internal/verify/verification/verificationtest"
)

// ValidateRecipient returns the reason for which a recipient is refused before anything is written.
func TestValidateRecipient(t *testing.T) {
	r := vtest.NewRig(t, func(s *vtest.Settings) { s.Blocks.Disposable = map[string]bool{"short.example": true} })
	r.NoError(r.Svc.ValidateRecipient("email", "ana@gmail.com"))
	r.WantInvalid(r.Svc.ValidateRecipient("email", "ana@a.short.example"), "to", "disposable")
}
