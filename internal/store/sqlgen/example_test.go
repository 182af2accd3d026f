package sqlgen_test

import (
	"fmt"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

func ExampleList() {
	attempts := sqlgen.NewList("a", store.AttemptID{}, func(held store.AttemptID, to *sqlgen.Row) {
		to.UUID("id", held.ID)
		to.Integer("attempt", held.Attempt)
	})
	fmt.Println(attempts.SQL())
	fmt.Println(attempts.SelectSQL())
	// Output:
	// unnest(@a_id::uuid[], @a_attempt::integer[]) AS a(id, attempt)
	// unnest(@a_id::uuid[]) AS id, unnest(@a_attempt::integer[]) AS attempt
}

func ExampleAppendCheck() {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fmt.Printf("%s\n", sqlgen.AppendCheck(nil, store.Check{At: at, Network: "192.0.2.0/24"}))
	// Output:
	// 1767323045000000 192.0.2.0/24
}
