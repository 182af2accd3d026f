package panics

import "testing"

func TestWaits(t *testing.T) { t.Parallel() }

func TestPanics(t *testing.T) { panic("said in a panic") }
