// Package internal has the tests of the small packages below it, of each in a file with its name:
// buckets_test.go is of package buckets. One program runs them all, since linking a program for each
// takes longer than their tests.
package internal
