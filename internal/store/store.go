// Package store has the types of the database's rows. Every send, refusal and verification has a
// row, and nothing is sent without its row. The rows serve three purposes.
//
//   - The record that answers "did the mail to this person go out, and if not, why?".
//   - The second gate: Begin decides the recipient's rules again, under a lock on that recipient, in the transaction
//     that writes the send. A lost or stale Redis therefore never admits one send too many.
//   - The outbox: a send in flight has a lease. Only the process with the latest attempt can finish it. When the lease
//     has run out, any replica can take the send over. Leases, and refunds that are due, have small tables of their own.
//
// This package validates rows and has no SQL. Package gate decides. Package sqldb has the store's
// methods and the statements that both databases run; postgres and sqlite have the statements of
// each send. Package storetest has the tests that both must pass. Packages that use the store
// declare the methods that they need.
//
// # A new field of a send
//
// The base list is for "device": a text that only back ends give, shown on the console's page of a
// send. Refusals and lists do not have it, and a resend does not inherit it.
//
//	internal/api/verifications.go          sendBody, parseSendRequest
//	internal/verification/ask.go           Request; validateOptions: bound it by IsPlainText, and refuse it without a secret key
//	internal/verification/parse_ask.go     sendRow: copy it
//	internal/verification/idempotency.go   fingerprint: append it only if it is set, so that earlier fingerprints stay
//	internal/store/records.go              Send; its Columns: {"device", &s.Device, InsertedByBegin | PersonalColumn}
//	internal/store/check.go                ValidatedIntent: pass it to AreValidTexts
//	migrations/{postgres,sqlite}           sends: device text NOT NULL DEFAULT ''; in 00001_schema.sql until 0.1.0 is released, then in a new file
//	internal/store/postgres/erase_test.go  erasable: sends, erased
//	internal/store/storetest/kit.go        Traces, WriteTraces: a text that an erasure must remove
//	web/admin/send.html                    after facts.reference
//	internal/texts/en.json, zh-Hans.json   facts.device; action.recipient.erase.what
//	internal/console/json.go               sendJSON
//	docs/openapi.yaml                      Ask; Story
//	docs/operations.md                     what an erasure removes
//	internal/console/testdata/pages.txt    go test ./internal/console -update
//	internal/verification/*_test.go        its bounds; TestKeyOfAnotherRequest
//
// Exceptions:
//
//   - Refusals have it, too: the flag InsertedByRefusal, and a column of the table refusals. Not for free text.
//   - Lists have it, too: rowJSON instead of sendJSON (schema Row), export.go, and sends-heads and sends-cells of
//     web/admin/layout.html.
//   - A resend inherits it: Verification and its Columns, ValidatedIntent, fillFromVerification (parse_ask.go) and
//     newVerification (intent.go) of package verification.
//   - An attempt finds it: [Outcome], postgres/finish.go and sqlite/outbox.go instead of api, Request and InsertedByBegin.
//
// A filter of the list by it, as by the reference:
//
//	migrations/{postgres,sqlite}             indexes of sends and, if they have it, refusals; the list of queries at the head of the Postgres schema
//	internal/store/requests.go, check.go     Filter; MayMatchAny, MayMatchRefusals
//	internal/store/records.go                Matches, with which the model of the tests says what a list has
//	internal/store/sqldb/filter.go           the condition
//	internal/store/postgres/filter.go        rareColumn, matchesMany
//	internal/console/query.go                the parameter; without an index, the list is bounded to 24 h
//	internal/console/export.go               the column, and the filters in the audit entry
//	web/admin/list.html                      the field
//	internal/texts/en.json, zh-Hans.json     filter.device
//	docs/openapi.yaml                        the parameter of sends and sends.csv
//
// # A new table
//
// The base list is for "notes": personal notes about a recipient. TestEveryColumnIsNamed fails until
// erasable names each column.
//
//	migrations/{postgres,sqlite}           the same columns in both, and an index for each condition; file: as for a field
//	internal/store/records.go              the type of a row and its Columns, or in a file of its own
//	internal/store/sqldb/fields.go         notesTable, by columns.New
//	internal/store/sqldb                   a file with its methods and statements
//	internal/store/sqldb/erase.go          Erase empties personal columns, Forget deletes the keyed hash
//	internal/store/sqldb/retention.go      agedTables: the age at which rows are deleted; without it they stay for ever
//	internal/store/storetest               a contract of its methods; kit.go: WriteTraces
//	internal/store/postgres/erase_test.go  erasable
//	docs/compliance.md                     its content, how long rows are kept, who reads them
//
// Exceptions: a table that the service may not change or delete (postgres/rights.go), one that grows
// with the sends (postgres/plan_test.go), one that each send writes (postgres/fixture_test.go and
// model_test.go).
//
// # Instants
//
// Instants are whole microseconds, UTC, and on the database's clock. Begin reads it after the lock.
package store

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"
)

// ErrBadRequest means that the arguments are invalid (a bug of the caller) or conflict with a row, as
// with ErrNameTaken. Nothing was written. All other errors of the store are of package fault. After
// fault.Uncertain, do not refund the send at once: look up its row later, or repeat Begin with the
// same Send.ID, which writes the send at most once.
var ErrBadRequest = errors.New("store: bad request")

// CallTimeout bounds a call to the database. It also bounds calls that go on after the client
// disconnected.
var CallTimeout = 5 * time.Second

// KeyCheckValues maps the name of each secret key to its check value: a keyed hash of a fixed text.
type KeyCheckValues map[string][]byte

// Differing returns the sorted names that have different values in c and other.
func (c KeyCheckValues) Differing(other KeyCheckValues) (names []string) {
	for name, value := range c {
		if known, ok := other[name]; ok && !bytes.Equal(known, value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// OtherKeysError means that the database was written with other secret keys. Names are the names of
// the keys that differ.
type OtherKeysError struct{ Names []string }

func (e *OtherKeysError) Error() string {
	return "store: the database was written with other keys: " + strings.Join(e.Names, ", ")
}

// SealedTable is a table with encrypted values (of keys.Ring.Seal) in its column "sealed". Key is
// the name of its primary-key column, which holds UUIDs or texts.
type SealedTable struct {
	Name, Key string
	UUID      bool
}

// SealedRow is a row of a SealedTable.
type SealedRow struct {
	Key    string
	Sealed []byte
}
