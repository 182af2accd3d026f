package sqldb

import (
	"context"
	"fmt"

	"sendcode/internal/store"
)

// An act whose ID is there already is left as it is.
const (
	addActSQL = `
INSERT INTO acts (id, at, who, role, network, what, app, channel, purpose, target, reason, outcome, detail, ends)
VALUES (@id, @now, @who, @role, @network, @what, @app, @channel, @purpose, @target, @reason, @outcome, @detail, @ends)
  ON CONFLICT (id) DO NOTHING`

	addPersonSQL = `INSERT INTO act_people (act, recipient, masked) VALUES (@id, @recipient, @masked) ON CONFLICT (act) DO NOTHING`

	actSQL = `
SELECT a.id, a.at, a.who, a.role, a.network, a.what, a.app, a.channel, a.purpose, p.recipient, coalesce(p.masked, ''),
       a.target, a.reason, a.outcome, a.detail, a.ends
FROM acts a LEFT JOIN act_people p ON p.act = a.id`
)

func actFields(a *store.AuditEntry) []any {
	return []any{
		&a.ID, TimeField{&a.At}, &a.Who, &a.Role, &a.Network, &a.What, &a.App, &a.Channel, &a.Purpose, hashField{&a.Recipient}, &a.To,
		&a.Target, &a.Reason, &a.Outcome, &a.Detail, maybeIDField{&a.Ends},
	}
}

// addAct writes a checked act in the transaction of its effect.
func (q Tx) addAct(a store.AuditEntry) error {
	err := q.exec(addActSQL, Args{
		"id": a.ID, "who": a.Who, "role": a.Role, "network": a.Network, "what": a.What, "app": a.App, "channel": a.Channel, "purpose": a.Purpose,
		"target": a.Target, "reason": a.Reason, "outcome": a.Outcome, "detail": a.Detail, "ends": orNull(a.Ends),
	})
	if err != nil || !a.OnSomebody() {
		return err
	}
	return q.exec(addPersonSQL, Args{"id": a.ID, "recipient": orNull(a.Recipient), "masked": a.To})
}

// addActIf is addAct where there is one.
func (q Tx) addActIf(a *store.AuditEntry) error {
	if a == nil {
		return nil
	}
	return q.addAct(*a)
}

// AddAuditEntry implements AuditTrail.
func (db *DB) AddAuditEntry(ctx context.Context, act store.AuditEntry) error {
	a, err := act.Checked()
	if err != nil {
		return err
	}
	return db.Write(ctx, func(q Tx) error { return q.addAct(a) })
}

// AuditEntries implements AuditTrail.
func (db *DB) AuditEntries(ctx context.Context, filter store.AuditFilter) ([]store.AuditEntry, error) {
	f, err := filter.Checked()
	if err != nil || !store.Storable(f.Who, f.What) {
		return nil, err
	}
	var c Conditions
	AddSome(&c, "a.who = ?", f.Who)
	AddSome(&c, "a.what = ?", f.What)
	if f.Recipient != nil {
		c.Add("p.recipient = ?", *f.Recipient)
	}
	c.Before("a.at, a.id", f.Before)
	return ReadAll(ctx, db, actFields, actSQL+c.Where()+fmt.Sprintf(" ORDER BY a.at DESC, a.id DESC LIMIT %d", f.Limit), Numbered(c.Args))
}
