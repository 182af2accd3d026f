package code

import (
	"errors"
	"strings"
	"testing"

	"sendcode/internal/fault"
)

// What "copy message" gives on a phone is taken; a slip stays one, and what could be two codes is
// not guessed at.
func TestFind(t *testing.T) {
	six, letters := Shape{Digits, 6}, Shape{Unambiguous, 8}
	for _, c := range []struct {
		shape    Shape
		in, want string
	}{
		{six, "293848", "293848"}, {six, "293 848", "293848"}, {six, "2\u200b93\u200d848\ufeff", "293848"},
		{six, "293848 is your code for Shop", "293848"},
		{six, "Your code: 293848. It expires in 10 minutes.", "293848"},
		{six, "293 848 is your code for Shop 24", "293848"}, {six, "【商店】验证码293848，10分钟内有效。", "293848"},
		{six, "293848 is your code. Do not share it.\n@codes.shop.example #293848", "293848"},
		{six, "293 848, that is 293-848", "293848"},
		{six, "Code ２９３８４８", "293848"}, {six, "رمزك ٢٩٣٨٤٨", "293848"}, {six, "a 29\u200b3848", "293848"},
		{six, "Ref 12345678, code 293848", "293848"}, {six, strings.Repeat("word ", 100) + "293848", "293848"},
		{letters, "BCDFGHJK is your code for Shop", "BCDFGHJK"}, {letters, "Shop: bcdf-ghjk is your code", "BCDFGHJK"},
		{letters, "验证码BCDFGHJK，", "BCDFGHJK"}, {letters, "Your code: BCDFGHJK\n@shop.example #bcdfghjk", "BCDFGHJK"},
	} {
		if got, err := c.shape.Find(c.in); err != nil || got != c.want {
			t.Errorf("Find(%q) = %q, %v", c.in, got, err)
		}
	}
	for in, reason := range map[string]string{
		"": "required", "Shop": "not_digits", "293848 or 111222": "not_digits", "your code is 2938481": "not_digits",
		"your code is 29384": "not_digits", "1234567, 22": "not_digits", "222222 3": "too_long", "29384": "too_short",
		strings.Repeat("x", 3000) + "293848": "too_long",
	} {
		var bad *fault.InvalidError
		if got, err := six.Find(in); !errors.As(err, &bad) || bad.Reason != reason {
			t.Errorf("Find(%q) = %q, %v", in, got, err)
		}
	}
	if got, err := letters.Find("ABCDFGHJK is no code, nor is BCDFGHJK1"); err == nil {
		t.Errorf("part of a word is taken: %q", got)
	}
}
