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

// preparedStatement is in the form that Postgres prepares, with numbers for parameters such as
// @lease.
type preparedStatement struct {
	sql   string
	names []string // the names of the parameters, in the order of their numbers
}

var parameterName = regexp.MustCompile(`@(\w+)`)

func numberParameters(statement string) (p preparedStatement) {
	p.sql = parameterName.ReplaceAllStringFunc(statement, func(parameter string) string {
		i := slices.Index(p.names, parameter[1:])
		if i < 0 {
			i, p.names = len(p.names), append(p.names, parameter[1:])
		}
		return fmt.Sprint("$", i+1)
	})
	return p
}

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

// queue adds a prepared statement to a round trip. args may have more than its parameters.
func (db *DB) queue(trip *pgx.Batch, statement string, args ...sqldb.Args) {
	p := db.prepared[statement]
	trip.Queue(p.sql, p.arguments(args...)...)
}

// query returns an error in the rows.
func (db *DB) query(ctx context.Context, conn *pgxpool.Conn, statement string, args ...sqldb.Args) pgx.Rows {
	p := db.prepared[statement]
	rows, _ := conn.Query(ctx, p.sql, p.arguments(args...)...)
	return rows
}

// registerStatements adds to db.prepared, and returns the statements as Postgres takes them.
func (db *DB) registerStatements(statements ...[]string) []string {
	return sqlgen.MapSlice(slices.Concat(statements...), func(statement string) string {
		p := numberParameters(db.replaceNow(statement))
		db.prepared[statement] = p
		return p.sql
	})
}

// failingStatement can't run without its parameter.
var failingStatement = numberParameters("SELECT @missing::int").sql

// prepareStatements prepares the statements in one round trip and runs none: pgx first prepares all
// statements of a batch, then binds parameters and stops, because failingStatement gets none. If a
// later version of pgx does otherwise, each statement is prepared at its first use.
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
