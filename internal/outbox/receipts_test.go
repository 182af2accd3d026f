package outbox

import (
	"testing"

	"sendcode/internal/sms"
	"sendcode/internal/store"
)

// askedOf is a carrier's receipts that must not be asked for: its methods have nothing behind them.
type askedOf struct{ Receipts }

// A message to which the carrier gave no ID awaits no receipt: there is nothing to know it by.
func TestAMessageWithoutAnIDAwaitsNoReceipt(t *testing.T) {
	o := newRefunding(t)
	o.Receipts = askedOf{}
	o.awaitReceipt(store.Work{}, sms.Receipt{Carrier: "fake"})
}
