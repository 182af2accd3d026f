package sample

import "testing"

func TestFew(t *testing.T) {
	t.Run("three", func(t *testing.T) {
		if few(3) || !few(2) {
			t.Error("wrong")
		}
	})
}

func TestPositive(t *testing.T) {
	if n, _ := positive(-1); n != 0 {
		t.Error("wrong")
	}
	if n, err := positive(1); n != 1 || err != nil {
		t.Error("wrong")
	}
}

func TestAbs(t *testing.T) {
	if abs(-1) != 1 || abs(0) != 0 || abs(1) != 1 {
		t.Error("wrong")
	}
}

func TestScript(t *testing.T) {
	if !accepts() {
		t.Error("wrong")
	}
}

func TestThatFails(t *testing.T) { t.Error("always") }
