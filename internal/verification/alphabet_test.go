package verification

import (
	"encoding/binary"
	"errors"
	"flag"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// deriveCodes is how many codes of each alphabet are looked at; make soak asks for 10 million.
var deriveCodes = flag.Int("verification.codes", 100_000, "codes to derive for the test of their distribution")

// letters is a rig whose default purpose has codes of eight unambiguous letters.
func letters(s *Settings) {
	p := s.Terms.Purposes["default"]
	p.Alphabet, p.CodeLength = Unambiguous, 8
	s.Terms.Purposes["default"] = p
}

// wrongLetters changes every character for another of the alphabet.
func wrongLetters(code string) string {
	all := alphabets[Unambiguous]
	return strings.Map(func(r rune) rune { return rune(all[(strings.IndexRune(all, r)+1)%len(all)]) }, code)
}

// RFC 8628 section 6.1.
func TestUnambiguousHasNoVowelsAndNoDigits(t *testing.T) {
	all := Unambiguous.Characters()
	if len(all) != 20 || strings.ContainsAny(all, "AEIOUY0123456789") {
		t.Errorf("%q", all)
	}
	for i, r := range all {
		if strings.ContainsRune(all[i+1:], r) || r < 'A' || r > 'Z' {
			t.Errorf("%q", r)
		}
	}
}

func TestReadLetters(t *testing.T) {
	for in, want := range map[string]string{
		"BCDFGHJK": "BCDFGHJK", "bcdfghjk": "BCDFGHJK", "bCdF-GhJk": "BCDFGHJK", " BCDF GHJK\n": "BCDFGHJK", "BCDF–GHJK": "BCDFGHJK",
		"ＢＣＤＦＧＨＪＫ": "BCDFGHJK", "ｂｃｄｆ　ｇｈｊｋ": "BCDFGHJK", "BC\u00a0DF\u200bGHJK": "BCDFGHJK", "bcdfghjklmnpqrstvwxz": "BCDFGHJKLMNPQRSTVWXZ", "ＢＺｂｚ": "BZBZ", "ＢＣ－ＤＦ": "BCDF",
	} {
		if got, err := Unambiguous.Read(in); err != nil || got != want {
			t.Errorf("Read(%q) = %q, %v", in, got, err)
		}
	}
	for in, reason := range map[string]string{
		"": "required", " - ": "required", "BCDFGHJ1": "not_in_alphabet", "BCDFGHJA": "not_in_alphabet", "bcdfghjy": "not_in_alphabet",
		"BCDFGHJ１": "not_in_alphabet", "BCDFGHJЗ": "not_in_alphabet", "ſ": "not_in_alphabet", "\u212a": "not_in_alphabet", "Ⓑ": "not_in_alphabet", "В": "not_in_alphabet",
		"B\xff": "not_in_alphabet", "！": "not_in_alphabet", strings.Repeat("B", 65): "too_long",
	} {
		var bad *InvalidError
		if got, err := Unambiguous.Read(in); !errors.As(err, &bad) || bad.Field != "code" || bad.Reason != reason {
			t.Errorf("Read(%q) = %q, %v", in, got, err)
		}
	}
}

// What is read is of the alphabet, whatever was typed; and nothing else than case and width counts as another character.
func TestReadGivesTheAlphabetAlone(t *testing.T) {
	for a, all := range alphabets {
		for r := rune(0); r <= unicode.MaxRune; r++ {
			got, err := a.Read(string(r))
			if err == nil && (len(got) != 1 || !strings.Contains(all, got)) {
				t.Fatalf("%s: U+%04X is read as %q", a, r, got)
			}
			if a == Unambiguous && err == nil && r > unicode.MaxASCII && (r < 'Ａ' || r > 'ｚ') {
				t.Fatalf("U+%04X is read as %q", r, got)
			}
		}
	}
}

// Computed by another program from the definition in code.go.
func TestDeriveLettersVectors(t *testing.T) {
	key, nonce := []byte("0123456789abcdef0123456789abcdef"), []byte("fedcba9876543210")
	for id, want := range map[string]string{"v1": "HDFJKJLSMT", "another": "QQWWKRNHXQ"} {
		if got := derive(key, id, nonce, alphabets[Unambiguous], 10); got != want {
			t.Errorf("derive(%q) = %s, want %s", id, got, want)
		}
	}
}

// Each character of each place is equally likely: chi-square, p = 0.001 of one place, for 9 and for 19 degrees of
// freedom. The inputs are fixed, so the figure is too.
func TestDeriveIsUniform(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	for a, bound := range map[Alphabet]float64{Digits: 27.9, Unambiguous: 43.9} {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			all, nonce, n := alphabets[a], make([]byte, 16), *deriveCodes
			seen := make([][256]int, 6)
			for i := range n {
				binary.LittleEndian.PutUint64(nonce, uint64(i))
				for place, c := range []byte(derive(key, "v", nonce, all, len(seen))) {
					seen[place][c]++
				}
			}
			want := float64(n) / float64(len(all))
			for place, counts := range seen {
				chi := 0.0
				for _, c := range []byte(all) {
					chi += math.Pow(float64(counts[c])-want, 2) / want
				}
				if t.Logf("place %d of %d codes: chi-square %.1f", place, n, chi); chi > bound {
					t.Errorf("place %d: chi-square %.1f", place, chi)
				}
			}
		})
	}
}

// Two purposes or two recipients have as many codes in common as chance has it, n²/10⁶ of n each: what tells verifications
// apart is ID and nonce. Six standard deviations more or less are no chance any more.
func TestCodesAreSharedByChanceAlone(t *testing.T) {
	r := newRig(t, nil)
	const n = 8_000
	of := func(purpose, to string) map[string]int {
		seen := map[string]int{}
		for range n {
			v, err := r.svc.fresh(asked{purpose: r.svc.Terms().Purposes[purpose], to: emailOf(t, to)})
			if err != nil {
				t.Fatal(err)
			}
			code, err := r.svc.code(v)
			if err != nil {
				t.Fatal(err)
			}
			seen[code]++
		}
		return seen
	}
	groups := []map[string]int{of("default", ana), of("login", ana), of("default", "ben@example.com")}
	for i, mine := range groups {
		for _, theirs := range groups[i+1:] {
			shared, mean := 0, n*n/1e6
			for code, times := range mine {
				shared += times * theirs[code]
			}
			if math.Abs(float64(shared)-mean) > 6*math.Sqrt(mean) {
				t.Errorf("group %d shares %d codes with another, of %.0f expected", i, shared, mean)
			}
		}
	}
}

func TestLettersAreSentAndChecked(t *testing.T) {
	inBubbleWith(t, letters, func(r *rig) {
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		if want := (CodeShape{Unambiguous, 8}); a.View.Code != want || r.get(a.View.ID).Code != want {
			t.Errorf("the view tells %v", a.View.Code)
		}
		for _, slip := range []string{"", "12345678", code[:7] + "A", code + "!"} {
			for name, check := range r.bothChecks(a.View.ID) {
				var bad *InvalidError
				if _, err := check(slip); !errors.As(err, &bad) || bad.Field != "code" {
					t.Errorf("%s %q: %v", name, slip, err)
				}
			}
		}
		if v := r.get(a.View.ID); v.AttemptsRemaining != maxAttempts {
			t.Errorf("slips cost tries: %d left", v.AttemptsRemaining)
		}
		if c := r.check(a.View.ID, wrongLetters(code)); c.Valid || c.AttemptsRemaining != maxAttempts-1 {
			t.Errorf("wrong letters: %+v", c)
		}
		if c := r.check(a.View.ID, strings.ToLower(code[:4])+" - "+code[4:]); !c.Valid {
			t.Errorf("the right letters: %+v", c)
		}
	})
}

// bothChecks are by ID and by name.
func (r *rig) bothChecks(id string) map[string]func(string) (Checked, error) {
	return map[string]func(string) (Checked, error){
		"by ID": func(typed string) (Checked, error) { return r.svc.Check(r.Context(), backEnd, id, typed) },
		"by name": func(typed string) (Checked, error) {
			return r.svc.CheckNamed(r.Context(), backEnd, Named{Channel: "email", To: ana}, typed)
		},
	}
}

// The configuration changes while codes live: each is of the alphabet that it was opened with, also when it is sent again.
func TestACodeKeepsItsAlphabet(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		changed := r.settings
		changed.Terms.Purposes = map[string]Purpose{"default": r.settings.Terms.Purposes["default"]}
		letters(&changed)
		r.svc.Change(changed.Terms)
		waited(minute)
		if b := r.send(askFor(ana)); b.View.ID != a.View.ID || codeIn(r.post.all()[1]) != code || b.View.Code.Alphabet != Digits {
			t.Errorf("the resend is another: %+v", b.View)
		}
		var bad *InvalidError
		if _, err := r.svc.Check(r.Context(), backEnd, a.View.ID, "BCDFGHJK"); !errors.As(err, &bad) || bad.Reason != "not_digits" {
			t.Errorf("letters for a code of digits: %v", err)
		}
		if c := r.check(a.View.ID, code); !c.Valid {
			t.Errorf("the code died with the change: %+v", c)
		}
		waited(minute)
		c := r.send(askFor(ana))
		if got := r.check(c.View.ID, codeIn(r.post.all()[2])); c.View.Code != (CodeShape{Unambiguous, 8}) || !got.Valid {
			t.Errorf("the next one is not of letters: %+v", got)
		}
	})
}

// Whatever is typed, an unknown ID and another app's are one and the same 404.
func TestAnUnknownIDIsTheSameWhateverIsTyped(t *testing.T) {
	for name, change := range map[string]func(*Settings){"digits": nil, "letters": letters} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, change, func(r *rig) {
				theirs := askFor(ana)
				theirs.App = "elsewhere"
				b := r.send(theirs)
				for _, id := range []string{"unknown", b.View.ID} {
					for _, typed := range []string{"", "123456", "BCDFGHJK", "!", strings.Repeat("1", 65)} {
						if got, err := r.svc.Check(r.Context(), backEnd, id, typed); err != ErrNotFound || got != (Checked{}) {
							t.Errorf("%q: %v", typed, err)
						}
						if got, err := r.svc.CheckNamed(r.Context(), backEnd, Named{Channel: "email", To: ana}, typed); err != ErrNotFound || got != (Checked{}) {
							t.Errorf("by name %q: %v", typed, err)
						}
					}
				}
			})
		})
	}
}

// A row of a later version, whose alphabet is not known here: that is nobody's mistake, so no code is called wrong.
func TestAnAlphabetOfAnotherVersion(t *testing.T) {
	inBubbleWith(t, letters, func(r *rig) {
		r.svc.Change(func() Terms {
			terms := r.settings.Terms
			p := terms.Purposes["default"]
			p.Alphabet = "runes"
			terms.Purposes = map[string]Purpose{"default": p}
			return terms
		}())
		a := r.send(askFor(ana))
		if v := r.get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != reasonUnreadable {
			t.Errorf("%+v", v.Send)
		}
		if _, err := r.svc.Check(r.Context(), backEnd, a.View.ID, "123456"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v", err)
		}
	})
}

// A test recipient's code is what was configured, whatever the purpose's codes are made of.
func TestATestRecipientsCodeHasItsOwnShape(t *testing.T) {
	for code, want := range map[string]CodeShape{"424242": {Digits, 6}, "BCDFGHJKL": {Unambiguous, 9}} {
		inBubbleWith(t, func(s *Settings) {
			letters(s)
			s.TestRecipients = map[recipient.Hash]TestRecipient{
				emailOf(t, "reviewer@example.com").Hash(s.IndexKey): {Code: code, Expires: time.Now().Add(time.Hour)},
			}
		}, func(r *rig) {
			a := r.send(askFor("reviewer@example.com"))
			if a.View.Code != want {
				t.Errorf("%v", a.View.Code)
			}
			if c := r.check(a.View.ID, strings.ToLower(code)); !c.Valid {
				t.Errorf("%s: %+v", code, c)
			}
		})
	}
}
