package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

// statement is a statement to prepare. Its parameters have names, as @lease has.
type statement struct{ name, sql string }

// preparedStatement is a statement with numbers in place of its parameters' names, and the names in
// that order.
type preparedStatement struct {
	sql   string
	names []string
}

var parameterName = regexp.MustCompile(`@(\w+)`)

// numbered returns the statement as Postgres takes it.
func (s statement) numbered() (n preparedStatement) {
	n.sql = parameterName.ReplaceAllStringFunc(s.sql, func(parameter string) string {
		i := slices.Index(n.names, parameter[1:])
		if i < 0 {
			i, n.names = len(n.names), append(n.names, parameter[1:])
		}
		return fmt.Sprint("$", i+1)
	})
	return n
}

// arguments returns the statement's arguments in their order.
func (p preparedStatement) arguments(args ...sqldb.Args) []any {
	return sqlgen.MapSlice(p.names, func(name string) any {
		for _, some := range args {
			if v, ok := some[name]; ok {
				return v
			}
		}
		panic("store: no argument @" + name)
	})
}

// queue adds a prepared statement to a trip. args may have more than the statement takes.
func (db *DB) queue(trip *pgx.Batch, name string, args ...sqldb.Args) {
	trip.Queue(db.prepared[name].sql, db.prepared[name].arguments(args...)...)
}

// query runs a prepared statement. The rows have its error.
func (db *DB) query(ctx context.Context, conn *pgxpool.Conn, name string, args ...sqldb.Args) pgx.Rows {
	rows, _ := conn.Query(ctx, db.prepared[name].sql, db.prepared[name].arguments(args...)...)
	return rows
}

// addStatements adds the statements to p.prepared, and returns their texts.
func (db *DB) addStatements(lists ...[]statement) (texts []string) {
	for _, s := range slices.Concat(lists...) {
		db.prepared[s.name] = s.numbered()
		texts = append(texts, db.prepared[s.name].sql)
	}
	return texts
}

// failingStatement is a statement that can't run without its parameter.
const failingStatement = "SELECT $1::int"

// prepareStatements prepares the statements on a new connection in one round trip. pgx prepares all
// statements of a batch before it binds their parameters, and the first one here has none, so pgx
// runs none of them. If a later pgx did otherwise, the first use would prepare them.
func prepareStatements(ctx context.Context, conn *pgx.Conn, statements []string) error {
	if len(statements) == 0 {
		return nil
	}
	var all pgx.Batch
	all.Queue(failingStatement)
	for _, s := range statements {
		all.Queue(s)
	}
	err := conn.SendBatch(ctx, &all).Close()
	if conn.IsClosed() || sqlState(err) != "" {
		return err
	}
	return nil
}
