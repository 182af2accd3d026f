package brand

import "testing"

// Whatever the accent is, its text can be read on every surface, and text on it too; one that can
// be read already stays as it is.
func TestColoursCanBeRead(t *testing.T) {
	for r := 0; r < 256; r += 17 {
		for g := 0; g < 256; g += 17 {
			for b := 0; b < 256; b += 51 {
				accent := colour{float64(r) / 255, float64(g) / 255, float64(b) / 255}.String()
				brand := New("", accent, "")
				for tone, s := range map[Palette]scheme{brand.Light: lightScheme, brand.Dark: darkScheme} {
					shade, _ := parseColour(tone.Accent)
					wash, _ := parseColour(tone.Wash)
					on, _ := parseColour(tone.On)
					for _, under := range []colour{s.paper, s.card, wash} {
						if c := contrast(shade, under); c < minContrast-0.05 { // of colours that were rounded
							t.Fatalf("%s: %s on %s has %.2f", accent, shade, under, c)
						}
					}
					if c := contrast(on, shade); c < minContrast-0.05 {
						t.Fatalf("%s: %s on %s has %.2f", accent, on, shade, c)
					}
				}
			}
		}
	}
	if got := New("", "#1f5fd1", "").Light.Accent; got != "#1f5fd1" {
		t.Errorf("an accent that can be read became %s", got)
	}
	if got := New("", "", "").Light; got != (Palette{}) || (Brand{}).StyleSheet() != "" {
		t.Errorf("without an accent there is %v", got)
	}
}

func TestCheckAccent(t *testing.T) {
	for _, good := range []string{"#1f5fd1", "#FFFFFF"} {
		if problem := AccentProblem(good); problem != "" {
			t.Errorf("%s: %s", good, problem)
		}
	}
	for _, bad := range []string{"", "#", "red", "#fff", "#12345g", "1f5fd1#", "#1f5fd1;", "#+1f5fd"} {
		if AccentProblem(bad) == "" {
			t.Errorf("%q passes", bad)
		}
	}
	if New("", "#1f5fd1", "").StyleVersion() == New("", "#1f5fd2", "").StyleVersion() {
		t.Error("two accents have one version")
	}
}
