package recipient_test

import (
	"fmt"

	"sendcode/internal/base/recipient"
)

func ExampleParseInCountry() {
	for _, typed := range []string{"0151 23456789", "0049 151 23456789", "+49 (151) 234-56789", "151"} {
		r, err := recipient.ParseInCountry(recipient.SMS, typed, "DE")
		fmt.Println(r.Address(), r, err)
	}
	// Output:
	// +4915123456789 +49 151•••789 <nil>
	// +4915123456789 +49 151•••789 <nil>
	// +4915123456789 +49 151•••789 <nil>
	//   invalid recipient: too_short
}

func ExampleParse_email() {
	for _, typed := range []string{"Ana <Ana.Lima@EXAMPLE.com>", "mailto:ana@例子。中国", "ana..lima@example.com"} {
		r, err := recipient.Parse(recipient.Email, typed)
		fmt.Println(r.Address(), r, err)
	}
	// Output:
	// Ana.Lima@example.com A•••@example.com <nil>
	// ana@xn--fsqu00a.xn--fiqs8s a•••@例子.中国 <nil>
	//   invalid recipient: misplaced_dot
}

func ExampleSuggestDomain() {
	for _, typed := range []string{"ana@gmial.com", "hotmial.com", "ana@mail.com"} {
		fmt.Println(recipient.SuggestDomain(typed))
	}
	// Output:
	// ana@gmail.com true
	// hotmail.com true
	//  false
}

func ExampleTrimPasted() {
	fmt.Println(recipient.TrimPasted("* (ana@example.com),"))
	fmt.Println(recipient.TrimPasted("ana@exam..."))
	// Output:
	// ana@example.com
	// ana@exam...
}
