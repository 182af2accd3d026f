package verification

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"sendcode/internal/delivery"
	"sendcode/internal/store"
)

func TestCheckCountsThenCompares(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		for left := maxAttempts - 1; left > 0; left-- {
			if c := r.check(a.View.ID, wrongFor(code)); c.Valid || c.State != Pending || c.AttemptsRemaining != left {
				t.Fatalf("wrong code: %+v, want %d left", c, left)
			}
		}
		if c := r.check(a.View.ID, wrongFor(code)); c.Valid || c.State != MaxAttemptsReached {
			t.Fatalf("fifth wrong code: %+v", c)
		}
		if c := r.check(a.View.ID, code); c.Valid || c.State != MaxAttemptsReached {
			t.Fatalf("the right code after five wrong ones: %+v", c)
		}
	})
}

func TestFifthTryMayBeRight(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		for range maxAttempts - 1 {
			r.check(a.View.ID, wrongFor(code))
		}
		if c := r.check(a.View.ID, code); !c.Valid || c.State != Approved {
			t.Fatalf("%+v", c)
		}
		if c := r.check(a.View.ID, code); c.Valid || c.State != Approved {
			t.Fatalf("used again: %+v", c)
		}
	})
}

func TestOneRightAnswerIsApproved(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		var valid atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if r.check(a.View.ID, code).Valid {
					valid.Add(1)
				}
			})
		}
		wg.Wait()
		if valid.Load() != 1 {
			t.Errorf("%d approved", valid.Load())
		}
	})
}

func TestSecondRightAnswerIsNotApproved(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		r.svc.Log = rival{r.log}
		if c := r.check(a.View.ID, codeIn(r.post.all()[0])); c.Valid || c.State != Approved {
			t.Errorf("%+v", c)
		}
	})
}

func TestCodeDies(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		waited(10*minute - time.Microsecond)
		if v := r.get(a.View.ID); v.State != Pending {
			t.Fatalf("a moment before the end: %s", v.State)
		}
		waited(time.Microsecond)
		if c := r.check(a.View.ID, code); c.Valid || c.State != Expired {
			t.Errorf("after ten minutes: %+v", c)
		}
		if v := r.get(a.View.ID); v.AttemptsRemaining != maxAttempts {
			t.Errorf("a check of a dead code counted: %d left", v.AttemptsRemaining)
		}
	})
}

func TestFailedResendKeepsTheCode(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		waited(minute)
		r.post.tell(failing(delivery.Rejected, "rcpt", 550, "5.1.1"))
		r.send(askFor(ana))
		if v := r.get(a.View.ID); v.Send.Number != 2 || v.Send.Status == store.Sent {
			t.Fatalf("the resend should have failed: %+v", v.Send)
		}
		if c := r.check(a.View.ID, codeIn(r.post.all()[0])); !c.Valid {
			t.Errorf("the code that arrived is dead: %+v", c)
		}
	})
}

func TestNormalise(t *testing.T) {
	for in, want := range map[string]string{
		"123456": "123456", " 123 456 ": "123456", "123-456": "123456", "123–456": "123456", "１２３４５６": "123456",
		"١٢٣٤٥٦": "123456", "۱۲۳۴۵۶": "123456", "१२३४५६": "123456", "𝟏𝟐𝟑𝟒𝟓𝟔": "123456", "𝟙𝟚𝟛𝟜𝟝𝟞": "123456",
		"12\u00a034\u200b56": "123456", "000000": "000000",
	} {
		if got, err := Digits.Read(in); err != nil || got != want {
			t.Errorf("Read(%q) = %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", " - ", "12345a", "１2３4５⑥", "½", "1.2", "1e5", string(make([]byte, 65))} {
		var bad *InvalidError
		if got, err := Digits.Read(in); !errors.As(err, &bad) || bad.Field != "code" {
			t.Errorf("Read(%q) = %q, %v", in, got, err)
		}
	}
}

// Every decimal digit that Unicode knows has the value that its place in its run of ten gives it.
func TestDigitValue(t *testing.T) {
	want := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !unicode.IsDigit(r) {
			if want != 0 {
				t.Fatalf("the run before U+%04X ends at %d", r, want)
			}
			continue
		}
		if got := digitValue(r); got != want {
			t.Fatalf("U+%04X is %d, want %d", r, got, want)
		}
		want = (want + 1) % 10
	}
}

// Computed by another program from the definition in code.go; a hundred digits need a second block.
func TestDeriveVectors(t *testing.T) {
	key, nonce := []byte("0123456789abcdef0123456789abcdef"), []byte("fedcba9876543210")
	for _, c := range []struct {
		id     string
		length int
		want   string
	}{
		{"v1", 6, "523676"},
		{"v1", 10, "5236768495"},
		{"another", 6, "227773"},
		{"v1", 100, "5236768495789728501422988626551542726322601704648181000025740392544249083116209123988566590623656611"},
	} {
		if got := derive(key, c.id, nonce, alphabets[Digits], c.length); got != c.want {
			t.Errorf("derive(%q, %d) = %s, want %s", c.id, c.length, got, c.want)
		}
	}
}

func TestDeriveSeparates(t *testing.T) {
	key, nonce := []byte("0123456789abcdef0123456789abcdef"), []byte("fedcba9876543210")
	base := derive(key, "v1", nonce, alphabets[Digits], 10)
	if derive(key, "v2", nonce, alphabets[Digits], 10) == base || derive(key[1:], "v1", nonce, alphabets[Digits], 10) == base || derive(key, "v1", nonce[1:], alphabets[Digits], 10) == base {
		t.Error("ID, key and nonce must each change the code")
	}
}

// An alphabet whose size does not divide 256 must throw bytes away; one that kept them would favour its start.
func TestDeriveThrowsAway(t *testing.T) {
	key, nonce := []byte("0123456789abcdef0123456789abcdef"), make([]byte, 16)
	alphabet := make([]byte, 200)
	for i := range alphabet {
		alphabet[i] = byte(i)
	}
	low := 0
	const n = 20_000
	for i := range n {
		nonce[0], nonce[1] = byte(i), byte(i>>8)
		for _, b := range []byte(derive(key, "v", nonce, string(alphabet), 8)) {
			if b < 56 { // 256 - 200: what folding would count twice
				low++
			}
		}
	}
	if share := float64(low) / (8 * n); math.Abs(share-0.28) > 0.01 {
		t.Errorf("the first 56 of 200 characters have a share of %.3f, want 0.280", share)
	}
}

func TestRotationBreaksNoLiveCode(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		code := codeIn(r.post.all()[0])
		r.svc.Ring = ringOf(t, "k2:"+newKey+",k1:"+oldKey)
		if c := r.check(a.View.ID, wrongFor(code)); c.Valid {
			t.Error("a wrong code was approved")
		}
		if c := r.check(a.View.ID, code); !c.Valid {
			t.Error("the key went to second place, and its code died")
		}
	})
}

func TestKeyThatLeftTheRing(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.send(askFor(ana))
		r.svc.Ring = ringOf(t, "k2:"+newKey)
		if _, err := r.svc.Check(r.Context(), backEnd, a.View.ID, codeIn(r.post.all()[0])); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Check: %v, want unavailable, not wrong", err)
		}
	})
}
