package auth

import (
	"slices"
	"strings"
	"testing"
)

// The vector comes from the reference implementation's own tests (argon2 version 19, t=2, m=256
// KiB, p=1).
func TestPHCReadsOthersHashes(t *testing.T) {
	h, err := parsePHC("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4")
	if err != nil {
		t.Fatal(err)
	}
	if !h.matches("password") || h.matches("Password") || h.matches("") {
		t.Error("the reference's hash is not understood")
	}
}

func TestPHCRefuses(t *testing.T) {
	const salt, sum = "c29tZXNhbHQ", "nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	const head = "$argon2id$v=19$m=256,t=2,p=1$"
	for _, bad := range []string{
		"", "password", "$argon2i$v=19$m=256,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=16$m=256,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=256,t=0,p=1$" + salt + "$" + sum, // argon2 would panic
		"$argon2id$v=19$m=256,t=2,p=0$" + salt + "$" + sum, "$argon2id$v=19$m=256,t=2,p=256$" + salt + "$" + sum,
		"$argon2id$v=19$m=4294967295,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=256,t=4294967295,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=256,p=1,t=2$" + salt + "$" + sum, head + "c2hvcnQ$" + sum, head + salt + "$c2hvcnQ",
		head + salt + "$", // an empty hash would match everything
		head + salt + "$" + strings.Repeat("A", 1000), head + "!!!!!!!!!!!!$" + sum, head + salt + "$" + sum + "$",
	} {
		if _, err := parsePHC(bad); err == nil {
			t.Errorf("%q is taken", bad)
		} else if len(bad) > 12 && strings.Contains(err.Error(), bad[12:]) {
			t.Errorf("the error repeats the hash: %v", err)
		}
	}
}

func TestNewPasswords(t *testing.T) {
	atProductCost(t)
	one := newPassword()
	if one == newPassword() || len(one) < 24 {
		t.Errorf("%q", one)
	}
	hash := hashPassword(one)
	p, err := newCredential("", hash)
	if err != nil || !p.hash.matches(one) || p.hash.matches(one+"x") || hash == hashPassword(one) {
		t.Errorf("%s: %v", hash, err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Error(hash)
	}
}

// A login computes hashes of the same costs for an unknown name, for the configured account with a
// plain password or a hash of any cost, and for an account of the database.
func TestLoginHashCostsAreTheSameForAnyName(t *testing.T) {
	atProductCost(t)
	for plain, hash := range map[string]string{
		"plain": "", "": "", "default": hashPassword("x"),
		"costly": "$argon2id$v=19$m=64,t=3,p=4$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
	} {
		configured, err := newCredential(plain, hash)
		kept, err2 := newCredential("", hashPassword("y"))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		costs := func(c credential) (all []string) {
			for _, h := range c.comparisons(configured) {
				all = append(all, h.prefix())
			}
			slices.Sort(all)
			return all
		}
		for _, c := range []credential{configured, kept} {
			if got, want := costs(c), costs(credential{}); !slices.Equal(got, want) {
				t.Errorf("%q %q: %q, and of an unknown name %q", plain, hash, got, want)
			}
		}
	}
}
