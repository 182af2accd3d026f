// Package store has the types of the database's rows. Every send, refusal and verification has a
// row, and nothing is sent without its row. The rows serve three purposes:
//
//   - They are the record. It answers "did the mail to this person go out, and if not, why?".
//   - They are the second gate. The first gate is the limiter, which usually keeps its counts in
//     Redis. Begin decides the recipient's rules again by the rows. It does so under a lock on that
//     recipient, in the transaction that writes the send. So even if Redis has lost counts, no send
//     too many is admitted.
//   - They are the outbox. A send in flight has a lease, and only the process with the latest
//     attempt can finish the send. After the lease ends, any replica can take the send over. The
//     leases have a small table of their own. The refunds that the limiter must still make have
//     another.
//
// This package validates rows and has no SQL. Package rowrules decides, by the rows, whether a send
// is admitted. Package sqldb has the store's methods and the statements that both databases run;
// postgres and sqlite have the statements of each send. Package storetest has the tests that both
// databases must pass. Packages that use the store declare the methods that they need.
//
// # A new field of a send
//
// A label, such as "campaign", is a text by which callers find their sends. Refusals have no
// labels, and a resend inherits the labels of its verification. To add a label, change only the
// places below. The list, its filter, the export, the page of a send and the erasure then have the
// label, too. Each new file of migrations also has a line in migrations/released.sha256.
//
//	internal/store/labels.go              Labels, with the name in requests; LabelColumns
//	migrations/{postgres,sqlite}          a new file: sends and verifications: campaign text NOT NULL DEFAULT ''; an index as sends_reference
//	internal/base/texts/en.json, zh-Hans.json  label.campaign
//	docs/openapi.yaml                     Ask, Verification, Row; the parameter of sends, sends.csv and search; prove/e2e/clients tries it
//	docs/compliance.md                     if it may reveal a person
//	internal/http/console/testdata             go test ./internal/http/console -update
//
// Webhooks, the widget and client.js know only the reference: deliver/webhook/payload.go,
// web/widget/flow.js and client.d.ts.
//
// A field that is not a label has these places:
//
//	internal/store/records.go              Send; its Columns: InsertedByBegin unless an attempt finds it, PersonalColumn if it reveals a person,
//	                                      ExportedColumn if the export of a person has it; otherwise sqldb/export.go says why not
//	migrations/{postgres,sqlite}           a new file: sends; refusals, too, with the flag InsertedByRefusal
//	internal/store/postgres/erase_test.go  erasable
//	internal/verify/verification/parse_ask.go     sendRow, if the request has it: then also ask.go, http/api/verifications.go and fingerprint (idempotency.go)
//	internal/store/check.go                ValidatedIntent, if it is a text; Sanitized, if an attempt finds it
//	internal/store/postgres/finish.go      if an attempt finds it, with [Outcome]; as in sqlite/outbox.go. Then asFirstWritten (store/rowrules)
//	                                      and asAdmitted (verification/idempotency.go) take it out of a repeated answer
//	internal/deliver/outbox/queue.go       Deliver, if an outcome has it; verification/view.go and http/api/answer.go, if API callers see it
//	internal/limit/refusals/refusals.go    findOrOpenSharedRow empties it, if it reveals a person
//	internal/http/console/json.go               sendJSON; rowJSONWithoutOutcome if lists have it, exportColumns and exportRow (export.go)
//	web/admin/send.html, internal/base/texts    the fact; sends-heads and sends-cells of web/admin/layout.html if lists have it
//	docs/openapi.yaml                      Story, or Row; docs/compliance.md, if it reveals a person
//	internal/http/console/testdata             go test ./internal/http/console -update
//
// A filter by such a field has these places:
//
//	migrations/{postgres,sqlite}          indexes of sends and, if they have it, refusals
//	internal/store/requests.go, check.go  Filter; MayMatchAny, MayMatchSends, MayMatchRefusals
//	internal/store/sqldb/filter.go        the condition; rareColumn and matchesMany of postgres/filter.go if few rows have a value; conditions and matches of postgres/model_read_test.go
//	internal/http/console/query.go             filterParameters; parseQuery, which writes normalized values back; without an index it bounds the list to 24 h
//	web/admin/list.html, internal/base/texts   the field; docs/openapi.yaml: the parameter of sends, sends.csv and search
//
// # A new table
//
// The list below has the places that every table needs. Its example is the table "notes", with
// personal notes about a recipient. TestEveryColumnIsNamed fails until erasable names each column.
//
//	migrations/{postgres,sqlite}           the same columns in both, and an index for each condition, in a new file
//	internal/store/records.go              the type of a row and its Columns, or in a file of its own
//	internal/store/sqldb/tables.go         notesTable, by sqlgen.New
//	internal/store/sqldb                   a file with its methods and statements
//	internal/store/sqldb/erase.go          personalTables: Erase empties personal columns, Forget (run by ForgetDueErased) deletes the keyed hash
//	internal/store/sqldb/retention.go      agedTables: the age at which rows are deleted; without it they stay for ever
//	internal/store/storetest               a contract of its methods; kit.go: WriteTraces
//	internal/store/postgres/erase_test.go  erasable
//	docs/compliance.md                     its content, how long rows are kept, who reads them
//
// Some tables have more places. A table whose rows the service may not change or delete is in
// postgres/rights.go. A table that grows with the sends is in postgres/plan_test.go. A table that
// each send writes is in postgres/fixture_test.go and model_test.go.
//
// # Instants
//
// Instants are whole microseconds, UTC, and on the database's clock. Begin reads the clock after it
// has taken the lock.
package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// ErrBadRequest means that the arguments are invalid (a bug of the caller) or conflict with a row,
// as with ErrNameTaken. Nothing was written. All other errors of the store belong to package fault.
// After fault.Uncertain, the send may have been written. So do not refund its event in the limiter
// at once. Either look up the row later, or repeat Begin with the same Send.ID: Begin writes the
// send at most once.
var ErrBadRequest = errors.New("store: bad request")

// CallTimeout bounds a call to the database; see WithCallTimeout.
var CallTimeout = 5 * time.Second

// WithCallTimeout returns ctx if ctx has a deadline, otherwise a context that ends after
// CallTimeout. Every method of the store calls WithCallTimeout before the method waits or reads. So
// callers set a deadline only for several calls together, or for a call that may take longer, such
// as Erase. In a stream, the timeout bounds each page, not the whole stream.
func WithCallTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, CallTimeout)
}

// KeyCheckValues maps the name of each secret key to the check value of the key. A check value is a
// keyed hash of a fixed text.
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

// SealedTable is a table with a column "sealed". keys.Ring.Seal encrypted the values in this
// column. Key is the name of the primary-key column. If UUID is set, the primary keys are UUIDs;
// otherwise they are texts.
type SealedTable struct {
	Name, Key string
	UUID      bool
}

// SealedRow is a row of a SealedTable.
type SealedRow struct {
	Key    string
	Sealed []byte
}
