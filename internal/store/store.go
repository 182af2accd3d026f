// Package store has a row for every send, refusal and verification; nothing is sent without its
// row. The rows are three things at once.
//
//   - The record that answers "did the mail to this person go out, and if not, why?".
//   - The second gate: Begin decides the recipient's rules again, under a lock on that recipient, in the transaction
//     that writes the send. A lost or stale Redis therefore never admits one send too many.
//   - The outbox: a row in flight carries a lease; the process that holds the row's latest attempt may finish it, and any
//     replica takes over a row whose lease ran out. Leases, and refunds that are due, have small tables of their own.
//
// This package has the types of the rows and their validation; it has no SQL. Package gate decides.
// Package sqldb has the store's methods and the statements that both databases run; postgres and
// sqlite have the other statements, mainly those of each send. Package storetest has the tests that
// both must pass. Packages that use the store declare the methods that they need.
//
// # A new field of a send
//
// Say "device": a text that back ends give with a request, in the database and on the console's
// page of a send, not in refusals, lists or exports; a resend does not inherit it.
//
//	internal/api/verifications.go          sendBody: Device string `json:"device"`; askFromRequest copies it
//	internal/verification/ask.go           Ask; validateOptions bounds it with IsPlainText, and refuses it without a secret key, as session
//	internal/verification/parse_ask.go     row copies it
//	internal/verification/idempotency.go   fingerprint: appended only if it is set, so that the fingerprints of other requests stay as they are
//	internal/store/records.go              Send: Device string; Columns: {"device", &s.Device, InsertedByBegin | Personal}, of which all statements follow
//	internal/store/check.go                ValidatedIntent: one text more to ValidTexts (TestEveryTextIsCheckedAndWritten in store/gate finds it missing)
//	migrations/{postgres,sqlite}           sends: device text NOT NULL DEFAULT ''
//	                                       In 00001_schema.sql until 0.1.0 is released, then ALTER TABLE in a new file
//	internal/store/postgres/erase_test.go  columns: sends, erased
//	internal/store/storetest/kit.go        Traces: a text to look for after an erasure; WriteTraces writes it
//	web/admin/send.html                    beside facts.reference
//	internal/texts/en.json, zh-Hans.json   facts.device; action.recipient.erase.what and docs/operations.md say what an erasure removes
//	internal/console/json.go               sendJSON: "device": frame.OrNull(s.Send.Device)
//	docs/openapi.yaml                      Ask, as session; Story: properties and required
//	internal/console/testdata/pages.txt    by go test ./internal/console -update: it has the text of the erasure
//	internal/verification/*_test.go        send_test.go: its bounds; TestKeyOfAnotherRequest: the only test that fails if the fingerprint lacks it
//
// Refusals have the field with InsertedByBegin | InsertedByRefusal and a column in the table refusals; free text
// stays out. Lists have it in rowJSON instead of sendJSON (schema Row), in export.go, and as a
// column of the page in sends-heads and sends-cells of web/admin/layout.html. A resend inherits it
// from a column of Verification, as the reference: fillFromVerification in parse_ask.go,
// newVerification in intent.go, Columns of Verification, and check.go. A field that an attempt
// finds begins in [Outcome], and is written by postgres/finish.go and sqlite/outbox.go.
//
// A filter of the list by it, as by the reference, and its column in the export:
//
//	migrations/{postgres,sqlite}             an index, as sends_reference, and its row in the comment at the head of postgres/00001_schema.sql;
//	                                         if refusals have the field, also theirs, as refusals_support
//	internal/store/requests.go, check.go     Filter: Device string; validated beside f.Reference, and MayBeRefusal where refusals lack it
//	internal/store/records.go                Matches: what the store finds and the live list shows are the same rows
//	internal/store/sqldb/filter.go           the condition, and which statements may not be used with it
//	internal/store/postgres/filter.go        rareColumn and matchesMany: whether the query by a rare value may be used with it
//	internal/console/query.go                the parameter, and the list of those that open "More filters";
//	                                         without an index, the condition that bounds the list to 24 h
//	internal/console/export.go               the column; the filters that the audit trail records
//	web/admin/list.html, internal/texts      the field; filter.device in en.json and zh-Hans.json
//	docs/openapi.yaml                        the parameter of sends, sends.csv and the live list
//
// # A new table
//
// Say "notes", a row for each note about a recipient. TestEveryColumnIsNamed fails until it is said
// what an erasure does to each column.
//
//	migrations/{postgres,sqlite}           CREATE TABLE notes in both, with the same columns and with an index for each condition
//	                                       In 00001_schema.sql until 0.1.0 is released, then in a new file
//	internal/store/records.go              the type of a row, or a file of its own; its Columns, if rows are read and written whole
//	internal/store/sqldb/fields.go         notesTable, by columns.New; its SelectList and the like write the statements
//	internal/store/sqldb                   a file with its statements and methods; what differs between the databases is a dialectSQL
//	internal/store/sqldb/erase.go          statements: Erase removes what is personal at once, Forget the keyed hash when its time has come
//	internal/store/sqldb/retention.go      aged: by which age rows are deleted; without a row there they stay for ever
//	internal/store/storetest               a contract of its methods, which both databases run; kit.go: WriteTraces writes it, if it is personal
//	internal/store/postgres/erase_test.go  erasable: each column
//	internal/store/postgres/rights.go      rights, if the service may do less than read, write and delete
//	internal/store/postgres/plan_test.go   rows and an index, if it grows with the sends; fixture_test.go and model_test.go, if a send writes it
//	docs/compliance.md                     what it has, for how long, who reads it, how it ends
//
// Packages that use the table declare its methods themselves; a new import goes into
// internal/house/tables_test.go.
//
// # Instants
//
// Instants are whole microseconds, UTC. A row keeps two: TakenAt on the clock of the limiter that
// let it in (named by Clock) and LoggedAt on the store's own clock, read after the lock. Ages
// are computed between instants of one clock. An age by the limiter's clock may exceed the age by
// the store's by up to 1 s (MaxClockSkew).
package store

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"
)

// ErrBadRequest: the arguments are invalid, a bug of the caller, or conflict with a row, as
// ErrNameTaken. Nothing was written. Every other error of the store is of package fault. After one
// that is Uncertain do not refund the send at once: look up its row later, or repeat Begin with the
// same Send.ID, which writes it at most once.
var ErrBadRequest = errors.New("store: bad request")

// MaxClockSkew is by how much the age of an event by the limiter's clock may differ from its age by
// the database's; if it differs by more, the limiter's clock was set, and the database's age
// counts. So a limiter whose clock jumps, or whose promoted replica has another clock, frees a
// place at most one second early. It is not 0, since the time from a Take to Begin varies, and a
// request after the announced wait must be admitted.
const MaxClockSkew = time.Second

// CallTimeout bounds a call to the database, also one that goes on after its client hung up.
var CallTimeout = 5 * time.Second

// KeyChecks are the check values of secret keys by the names of these.
type KeyChecks map[string][]byte

// Differing returns the names, sorted, under which both have different values.
func (c KeyChecks) Differing(other KeyChecks) (names []string) {
	for name, value := range c {
		if known, ok := other[name]; ok && !bytes.Equal(known, value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// OtherKeysError says that the database was written with other keys of these names.
type OtherKeysError struct{ Names []string }

func (e *OtherKeysError) Error() string {
	return "store: the database was written with other keys: " + strings.Join(e.Names, ", ")
}

// SealedTable is a table whose column "sealed" keys.Ring.Seal made; Key is the column of its rows'
// key, a UUID or a text.
type SealedTable struct {
	Name, Key string
	UUID      bool
}

// SealedRow is a row of a SealedTable.
type SealedRow struct {
	Key    string
	Sealed []byte
}
