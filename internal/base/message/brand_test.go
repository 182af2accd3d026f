package message_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"sendcode/internal/base/message"
	"sendcode/internal/kit/servertest"
)

// With any accent, text in the accent is readable on every surface, and so is text on the accent.
// An accent that is already readable is unchanged.
func TestColoursCanBeRead(t *testing.T) {
	for r := 0; r < 256; r += 17 {
		for g := 0; g < 256; g += 17 {
			for b := 0; b < 256; b += 51 {
				accent := fmt.Sprintf("#%02x%02x%02x", r, g, b)
				branded := message.NewBrand("", accent, "")
				for tone, surfaces := range map[message.Palette][]string{
					branded.Light: {"#f6f5f2", "#ffffff", branded.Light.Wash},
					branded.Dark:  {"#131417", "#1b1d21", branded.Dark.Wash},
				} {
					for _, under := range surfaces {
						if c := contrast(tone.Accent, under); c < 4.45 { // the limit is 4.5; the colours were rounded
							t.Fatalf("%s: %s on %s has %.2f", accent, tone.Accent, under, c)
						}
					}
					if c := contrast(tone.On, tone.Accent); c < 4.45 {
						t.Fatalf("%s: %s on %s has %.2f", accent, tone.On, tone.Accent, c)
					}
				}
			}
		}
	}
	servertest.Same(t, "an accent that can be read", message.NewBrand("", "#1f5fd1", "").Light.Accent, "#1f5fd1")
	// Chromium computes this colour for oklch(from #0f766e max(l, 0.74) c h), with which tokens.css
	// makes the colour of text in the accent on dark.
	servertest.Same(t, "#0f766e on dark", message.NewBrand("", "#0f766e", "").Dark.Accent, "#65bdb3")
	if got := message.NewBrand("", "", "").Light; got != (message.Palette{}) || (message.Brand{}).StyleSheet() != "" {
		t.Errorf("without an accent there is %v", got)
	}
}

func TestCheckAccent(t *testing.T) {
	for _, good := range []string{"#1f5fd1", "#FFFFFF"} {
		servertest.Same(t, good, message.AccentProblem(good), "")
	}
	for _, bad := range []string{"", "#", "red", "#fff", "#12345g", "1f5fd1#", "#1f5fd1;", "#+1f5fd"} {
		if message.AccentProblem(bad) == "" {
			t.Errorf("%q passes", bad)
		}
	}
	if message.NewBrand("", "#1f5fd1", "").StyleVersion() == message.NewBrand("", "#1f5fd2", "").StyleVersion() {
		t.Error("two accents have one version")
	}
}

// contrast returns the contrast ratio of WCAG 2.2 between two colours, which have the form #rrggbb.
func contrast(a, b string) float64 {
	luminance := func(colour string) (sum float64) {
		for i, share := range []float64{0.2126, 0.7152, 0.0722} {
			n, _ := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			v := float64(n) / 255
			if v > 0.04045 {
				v = math.Pow((v+0.055)/1.055, 2.4)
			} else {
				v /= 12.92
			}
			sum += share * v
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}
