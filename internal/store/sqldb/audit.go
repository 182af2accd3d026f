package sqldb

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

// addAuditRecipientSQL takes the masked recipient from the entry @completes, if that has one. So if
// an erasure has blanked the recipient meanwhile, the new entry doesn't have it either.
const addAuditRecipientSQL = `INSERT INTO audit_recipients (entry, recipient, masked)
VALUES (@id, @recipient, coalesce((SELECT p.masked FROM audit_recipients p WHERE p.entry = @completes), @masked)) ON CONFLICT (entry) DO NOTHING`

var auditEntriesSQL = `SELECT ` + auditEntryTable.SelectList() +
	` FROM audit_entries a LEFT JOIN audit_recipients p ON p.entry = a.id`

// addAuditEntry adds a validated entry in the transaction of the action. An existing entry with
// this ID stays as it is.
func (t Tx) addAuditEntry(a store.AuditEntry) error {
	a.At = t.Now
	insert, args := auditEntryTable.InsertSQL(store.InsertedColumn, &a)
	added, err := t.Change(insert+` ON CONFLICT (id) DO NOTHING`, args)
	if added && t.audited != nil {
		*t.audited = append(*t.audited, a)
	}
	if err != nil || !a.HasRecipient() {
		return err
	}
	return t.exec(addAuditRecipientSQL, Args{
		"id": a.ID, "recipient": sqlgen.NullIfZero(a.Recipient), "masked": a.To,
		"completes": a.Completes,
	})
}

// Write is Engine.Write with InOrder. After the commit it logs the audit entries.
func (db *DB) Write(ctx context.Context, name string, f func(q Tx) error) error {
	return db.writeWithPrecedence(ctx, name, InOrder, f)
}

func (db *DB) writeWithPrecedence(ctx context.Context, name string, precedence Precedence, f func(q Tx) error) error {
	var audited []store.AuditEntry
	err := db.Engine.Write(ctx, name, precedence, func(q Tx) error {
		q.audited = &audited
		return f(q)
	})
	if err != nil || db.Actions == nil {
		return err
	}
	for _, a := range audited {
		logAction(ctx, db.Actions, a)
	}
	return nil
}

// logAction leaves out the recipient, and the reason, in which an administrator may have named a
// person.
func logAction(ctx context.Context, logger *slog.Logger, a store.AuditEntry) {
	fields := []slog.Attr{slog.String("event", "action"), slog.String("id", a.ID.String())}
	for _, f := range []struct{ name, value string }{
		{"who", a.Who},
		{"role", a.Role},
		{"network", a.Network},
		{"action", a.What},
		{"app", a.App},
		{"channel", string(a.Channel)},
		{"purpose", a.Purpose},
		{"target", a.Target},
		{"outcome", string(a.Outcome)},
		{"detail", a.Detail},
	} {
		if f.value != "" {
			fields = append(fields, slog.String(f.name, f.value))
		}
	}
	if a.Completes != uuid.Nil {
		fields = append(fields, slog.String("ends", a.Completes.String()))
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "administrator's action", fields...)
}

// AddAuditEntry leaves an entry with the same ID as it is. Errors: ErrBadRequest,
// fault.Unavailable.
func (db *DB) AddAuditEntry(ctx context.Context, act store.AuditEntry) error {
	a, err := act.Validated()
	if err != nil {
		return err
	}
	return db.Write(ctx, "AddAuditEntry", func(q Tx) error { return q.addAuditEntry(a) })
}

// AuditEntries returns entries sorted by At and then ID, newest first.
func (db *DB) AuditEntries(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, error) {
	if !store.AreValidTexts(f.Who, f.What) {
		return nil, nil
	}
	var c Conditions
	AddIfSet(&c, "a.actor = ?", f.Who)
	AddIfSet(&c, "a.action = ?", f.What)
	if f.Recipient != nil {
		c.Add("p.recipient = ?", *f.Recipient)
	}
	c.addBefore("a.at, a.id", f.Before)
	return ReadAll(ctx, db, "AuditEntries", auditEntryTable.Destinations,
		auditEntriesSQL+c.Where()+fmt.Sprint(` ORDER BY a.at DESC, a.id DESC LIMIT `, f.Limit), c.Args)
}
