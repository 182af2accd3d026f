//go:build !unix

// Package disk asks the operating system about disks and files.
package disk

import "os"

// Space returns ok = false. On these systems this package cannot find out the free space and the
// size of a disk.
func Space(string) (free, size float64, ok bool) { return 0, 0, false }

// OfOwnGroup returns false: on these systems this package does not know the groups of files.
func OfOwnGroup(os.FileInfo) bool { return false }

// SameOwner returns true: on these systems this package does not know the owners of files.
func SameOwner(_, _ os.FileInfo) bool { return true }
