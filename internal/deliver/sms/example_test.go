package sms_test

import (
	"fmt"
	"strings"

	"sendcode/internal/deliver/sms"
)

// 160 characters fit into one segment, and 153 into each of several. A curly quote turns the text
// into UCS-2, where the numbers are 70 and 67.
func ExampleSegments() {
	text := strings.Repeat("a", 160)
	fmt.Println(sms.Segments(text), sms.Segments(text+"a"), sms.Segments(text[1:]+"’"))
	// Output: 1 2 3
}
