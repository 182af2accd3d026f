package course

import "testing"

func TestPasses(t *testing.T) {}

func TestIsSkipped(t *testing.T) { t.Skip("no such server here") }

func TestFailsBelow(t *testing.T) {
	t.Log("said by the parent")
	t.Run("good", func(t *testing.T) {})
	t.Run("bad/slash", func(t *testing.T) { t.Error("said by the child\nin two lines") })
}

func TestFailsItself(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Error("said after the children")
}

func FuzzSeeds(f *testing.F) {
	f.Add("one")
	f.Add("two")
	f.Fuzz(func(t *testing.T, _ string) {})
}
