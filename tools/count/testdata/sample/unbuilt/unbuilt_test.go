package unbuilt

import "testing"

func TestDoesNotCompile(t *testing.T) { undeclared() }
