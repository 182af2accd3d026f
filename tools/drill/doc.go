// Package drill plays the person at the desk whom callers ask "where is my code?". It makes incidents, each in the way in which it
// really comes about, among a million ordinary sends; then it sits down before the console in a browser, knowing no more than a
// caller would tell, and looks whether the verdict and the next step are right, in two actions at most. What is right stands in a table
// of its own (kinds_…_test.go), in the words that a person would need to hear, and not in those of the console's catalogue.
//
// It has tests only: `make drill` runs them over a million rows, `make test` over a few thousand.
package drill
