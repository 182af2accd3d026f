package code_test

import (
	"fmt"

	"sendcode/internal/codes/code"
)

func ExampleFormat_Find() {
	six := code.Format{Alphabet: code.Digits, Length: 6}
	for _, typed := range []string{
		"293-848", "٢٩٣٨٤٨", "293848 is your code for Shop, valid for 10 minutes. @shop.example #293848", "Your code: 293 848",
		"293848 or 848293?", "2938",
	} {
		fmt.Println(six.Find(typed))
	}
	// Output:
	// 293848 <nil>
	// 293848 <nil>
	// 293848 <nil>
	// 293848 <nil>
	//  code: not_digits
	//  code: too_short
}
