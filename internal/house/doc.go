// Package house holds the rules of this repository that a machine can check:
// which package may import which, where a module may be used, and how a source
// file looks. It has tests only.
//
// The reason for the import rules is that the way of one send stays readable:
// verification alone calls the parts, and the parts do not know each other.
// tables_test.go has the rules to read and to extend; a test that fails says
// what to do.
package house
