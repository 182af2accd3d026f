package sqldb

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

const (
	// spendSQL returns no row if the sum would exceed the limit. Of two parallel calls, the second
	// waits for the row lock and then sees the first's sum.
	spendSQL = `
INSERT INTO spending AS s (cap, period, used) SELECT @cap, @period, CAST(@amount AS bigint) WHERE CAST(@amount AS bigint) <= @limit
ON CONFLICT (cap, period) DO UPDATE SET used = s.used + excluded.used WHERE s.used + excluded.used <= @limit
RETURNING used`

	undoChargeSQL = `
UPDATE spending SET used = CASE WHEN used > @amount THEN used - @amount ELSE 0 END WHERE cap = @cap AND period = @period`

	spentSQL = `SELECT used FROM spending WHERE cap = @cap AND period = @period`

	addCarrierHoldSQL = `
INSERT INTO carrier_holds AS e (channel, recipient, since, until)
SELECT @channel, @recipient, clock.now, clock.now + CAST(@lasts AS interval) FROM (SELECT @now AS now) AS clock WHERE true
ON CONFLICT (recipient, channel) DO UPDATE SET since = excluded.since, until = excluded.until WHERE excluded.until > e.until`

	carrierHoldSQL = `SELECT since, until, @now FROM carrier_holds WHERE recipient = @recipient AND channel = @channel AND until > @now`
)

// Spend makes all charges. If one would exceed its Limit, Spend makes none, and returns the Cap of
// that charge as refusedBy. Parallel calls never exceed a limit together. After an error other than
// fault.Uncertain, nothing was charged.
func (db *DB) Spend(ctx context.Context, charges []store.SMSCharge) (charged []store.SpentCharge, refusedBy string, err error) {
	charges = slices.Clone(charges) // sorted, so that all callers lock the caps in the same order and can't deadlock
	slices.SortFunc(charges, func(a, b store.SMSCharge) int { return strings.Compare(a.Cap, b.Cap) })
	charged, err = WriteWithResult(ctx, db, "Spend", func(q Tx) (charged []store.SpentCharge, err error) {
		for _, c := range charges {
			spent := store.SpentCharge{SMSCharge: c, Period: store.PeriodStart(c.Per, q.Now)}
			spent.Used, err = queryFirst(q, OneColumn[int64], spendSQL,
				Args{"cap": c.Cap, "period": spent.Period, "amount": c.Amount, "limit": c.Limit})
			if errors.Is(err, fault.NotFound) {
				refusedBy = c.Cap
			}
			if err != nil {
				return nil, err
			}
			charged = append(charged, spent)
		}
		return charged, nil
	})
	if refusedBy != "" { // Write rolled back the charges before this one
		return nil, refusedBy, nil
	}
	return charged, "", err
}

// Spent returns the sum of the cap's present period.
func (db *DB) Spent(ctx context.Context, c store.SMSCharge) (used int64, err error) {
	_, err = db.readWithClock(ctx, "Spent", func(q Tx, now time.Time) error {
		used, err = queryFirst(q, OneColumn[int64], spentSQL, Args{"cap": c.Cap, "period": store.PeriodStart(c.Per, now)})
		if errors.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
	return used, err
}

// UndoSpend subtracts each charge from the period in which it was made.
func (db *DB) UndoSpend(ctx context.Context, charged []store.SpentCharge) error {
	return db.Write(ctx, "UndoSpend", func(q Tx) error {
		for _, x := range charged {
			if err := q.exec(undoChargeSQL, Args{
				"amount": x.Amount, "cap": x.Cap,
				"period": x.Period,
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddCarrierHold stores that a carrier would refuse messages to a recipient from now on, for the
// duration lasts. It changes nothing if an earlier hold ends later.
func (db *DB) AddCarrierHold(ctx context.Context, ch recipient.Channel, h recipient.Hash, lasts time.Duration) error {
	_, err := db.runOne(ctx, "AddCarrierHold", addCarrierHoldSQL, Args{"channel": ch, "recipient": h, "lasts": lasts})
	return err
}

// CarrierHold returns the hold of a recipient, or the zero value if there is none.
func (db *DB) CarrierHold(ctx context.Context, ch recipient.Channel, h recipient.Hash) (hold store.CarrierHold,
	err error,
) {
	err = db.ReadShared(ctx, "CarrierHold", &Statement{
		SQL: carrierHoldSQL, Args: Args{"channel": ch, "recipient": h},
		Each: func(read Scan) error {
			var since, until, now time.Time
			err := read(sqlgen.ScannerFor(&since), sqlgen.ScannerFor(&until), sqlgen.ScannerFor(&now))
			hold = store.CarrierHold{Left: until.Sub(now), Whole: until.Sub(since)}
			return err
		},
	})
	return hold, err
}
