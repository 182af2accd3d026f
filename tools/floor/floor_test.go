package main

import (
	"os"
	"strings"
	"testing"
)

// What the fair floor does, beside HTTP and the bytes that it copies, stays a program that one reads in ten minutes.
func TestFairFloorIsSmall(t *testing.T) {
	lines := 0
	for _, file := range []string{"fair.go", "sharing.go", "mailer.go"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(raw), "\n")
	}
	if lines > 300 {
		t.Errorf("%d lines, want at most 300", lines)
	}
}
