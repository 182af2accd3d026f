package sample

import "testing"

func TestFew(t *testing.T) {
	t.Run("three", func(t *testing.T) {
		if few(3) {
			t.Error("three are few")
		}
	})
}

func TestPositive(t *testing.T) {
	if positive(-1) != 0 || positive(1) != 1 {
		t.Error("wrong")
	}
}

func TestCount(t *testing.T) {
	if count() != 2 {
		t.Error("there are not two words")
	}
}

func TestThatFails(t *testing.T) { t.Error("always") }
