package delivery_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailserver"
)

// TestWhatIsHeldAgainstAServer: faults of its own, and nothing that a message, its recipient or our
// own haste causes.
func TestWhatIsHeldAgainstAServer(t *testing.T) {
	of := func(class delivery.ErrorClass, status int, stages ...string) (all []*delivery.Error) {
		for _, stage := range stages {
			all = append(all, &delivery.Error{Class: class, Stage: stage, Status: status})
		}
		return all
	}
	before := []string{delivery.StageDial, delivery.StageTLS, delivery.StageHello, delivery.StageAuth,
		delivery.StageMail}
	after := []string{delivery.StageRcpt, delivery.StageData, delivery.StageDot}
	fault := errors.New("the failure itself")
	for want, fails := range map[error][]*delivery.Error{
		nil: slices.Concat([]*delivery.Error{nil}, of(delivery.Rejected, 422, delivery.StageAnswer),
			of(delivery.Rejected, 550, slices.Concat([]string{delivery.StageMail}, after)...),
			of(delivery.Temporary, 451, after...), of(delivery.Temporary, 452, after...)),
		delivery.ErrHealthUnknown: slices.Concat(of(delivery.Unknown, 0, delivery.StageDot),
			of(delivery.Temporary, 429, delivery.StageAnswer)),
		fault: slices.Concat(of(delivery.Temporary, 0, slices.Concat(before, after)...),
			of(delivery.Temporary, 421, slices.Concat(before, after)...),
			of(delivery.Temporary, 451, before...), of(delivery.Temporary, 530, before...),
			of(delivery.Temporary, 250, delivery.StageData),
			of(delivery.Temporary, 403, delivery.StageAnswer), of(delivery.Temporary, 503, delivery.StageAnswer),
			of(delivery.Unknown, 500, delivery.StageAnswer), of(delivery.Unknown, 0, delivery.StageRequest)),
	} {
		for _, fail := range fails {
			if got := mailserver.BreakerReport(t.Context(), fail); got != want && (want != fault || got != fail) {
				t.Errorf("%v: %v, want %v", fail, got, want)
			}
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got := mailserver.BreakerReport(ended, of(delivery.Temporary, 0, delivery.StageRcpt)[0]); got != delivery.ErrHealthUnknown {
		t.Errorf("our own haste: %v", got)
	}
}
