// Package drill plays a support clerk. It causes incidents on a running service, each in the way in
// which it really happens, among a million ordinary sends. Then it searches in the console, in a
// browser, for what a caller would say, and checks that the verdict and the next step are right,
// after two actions at most. What is right stands in a table (kinds_…_test.go), in the words that a
// caller needs to hear and not in those of the console's texts.
//
// It has tests only: `make drill` runs them over a million rows, `make test` ten kinds over a few
// thousand.
package drill
