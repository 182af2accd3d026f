package store_test

import (
	"fmt"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

func ExampleParseSupportReference() {
	id := uuid.MustParse("019b4f3c-2800-7000-8000-000000000101")
	reference := store.SupportReference(id)
	fmt.Println(reference)
	want, _ := store.ParseSupportReference(reference)
	for _, written := range []string{"s 2szp e2r1", "S2SZPE2RI", "S–2SZP–E2rl", "2SZP-E2R1"} {
		r, ok := store.ParseSupportReference(written)
		fmt.Println(written, ok && r == want)
	}
	// Output:
	// S-2SZP-E2R1
	// s 2szp e2r1 true
	// S2SZPE2RI true
	// S–2SZP–E2rl true
	// 2SZP-E2R1 false
}
