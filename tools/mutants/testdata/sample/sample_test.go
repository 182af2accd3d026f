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

func TestFunctions(t *testing.T) {
	p := pair[int]{1, 2}
	if p.swapped() != (pair[int]{2, 1}) {
		t.Error("not swapped")
	}
	if p.forget(); p != (pair[int]{}) {
		t.Error("not forgotten")
	}
	if sum("", 1, 2) != 3 {
		t.Error("wrong sum")
	}
	if (list{1}).longest(list{1, 2}) != 2 {
		t.Error("not the longest")
	}
	l := list{1}
	if l.clear(); l[0] != 0 {
		t.Error("not clear")
	}
}

func TestThatFails(t *testing.T) { t.Error("always") }
