package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// One call may have made its batch fail by its data, a lock or a timeout, including a timeout that
// an operator has set for the login. Then the batch runs again in parts. An error that ends the
// connection, or is about the server, fails the whole batch.
func TestCausedByOneCall(t *testing.T) {
	for code, want := range map[string]bool{
		"57014": true, // a statement timeout, or an operator's cancellation
		"55P03": true, "40001": true, "40P01": true, "22P05": true, "23514": true, "54000": true,
		"57P01": false, "53100": false, "53200": false, "25006": false, "42501": false, "42P01": false, "XX000": false, "": false,
	} {
		err := fmt.Errorf("a batch: %w", &pgconn.PgError{Code: code, SeverityUnlocalized: "ERROR"})
		servertest.Same(t, code, causedByOneCall(err), want)
		fatal := &pgconn.PgError{Code: code, SeverityUnlocalized: "FATAL"} // the server has closed the connection
		servertest.Same(t, code+", which ends the connection", causedByOneCall(fatal), false)
	}
	for what, err := range map[string]error{
		"the client": context.Canceled, "our own time": context.DeadlineExceeded, "the connection": errors.New("unexpected EOF"),
		"the schema": store.ErrSchema,
	} {
		servertest.Same(t, what, causedByOneCall(err), false)
	}
	servertest.Same(t, "a panic", causedByOneCall(errPanicBefore), true)
}
