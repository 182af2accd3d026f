package rig

import "fmt"

func NthNumber(n int) string { return fmt.Sprintf("+49151%08d", 20_000_000+n) }
