package sqldb

import (
	"context"
	"fmt"

	"sendcode/internal/store"
	"sendcode/internal/store/columns"
)

const addAuditRecipientSQL = `INSERT INTO audit_recipients (entry, recipient, masked)
VALUES (@id, @recipient, @masked) ON CONFLICT (entry) DO NOTHING`

var auditEntriesSQL = `SELECT ` + auditEntryTable.SelectList() + ` FROM audit_entries a LEFT JOIN audit_recipients p ON p.entry = a.id`

// addAuditEntry adds a validated audit entry in the transaction of the action. If an entry with this ID exists, nothing is changed.
func (q Tx) addAuditEntry(a store.AuditEntry) error {
	a.At = q.Now
	insert, args := auditEntryTable.Insert(store.Added, &a)
	if err := q.exec(insert+` ON CONFLICT (id) DO NOTHING`, args); err != nil || !a.HasRecipient() {
		return err
	}
	return q.exec(addAuditRecipientSQL, Args{"id": a.ID, "recipient": columns.NullIfZero(a.Recipient), "masked": a.To})
}

// AddAuditEntry adds an entry. If an entry with the same ID exists, it changes nothing. Errors: ErrBadRequest, fault.Unavailable.
func (db *DB) AddAuditEntry(ctx context.Context, act store.AuditEntry) error {
	a, err := act.Validated()
	if err != nil {
		return err
	}
	return db.Write(ctx, func(q Tx) error { return q.addAuditEntry(a) })
}

// AuditEntries returns entries, newest first, by At and then ID.
func (db *DB) AuditEntries(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, error) {
	if !store.ValidTexts(f.Who, f.What) {
		return nil, nil
	}
	var c Conditions
	AddIfSet(&c, "a.actor = ?", f.Who)
	AddIfSet(&c, "a.action = ?", f.What)
	if f.Recipient != nil {
		c.Add("p.recipient = ?", *f.Recipient)
	}
	c.addBefore("a.at, a.id", f.Before)
	return ReadAll(ctx, db, auditEntryTable.Destinations,
		auditEntriesSQL+c.Where()+fmt.Sprint(` ORDER BY a.at DESC, a.id DESC LIMIT `, f.Limit), c.Args)
}
