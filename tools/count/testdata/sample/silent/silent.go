// Package silent has no tests.
package silent
