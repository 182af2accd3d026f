package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// loaded is a configuration whose data directory is new.
func loaded(t *testing.T, environ ...string) Config {
	t.Helper()
	c := must(t, "", environ...)
	c.DataDir = filepath.Join(t.TempDir(), "deep", "data")
	return c
}

// filled is the same after FillSecrets.
func filled(t *testing.T, c Config) (Config, []GeneratedSecret) {
	t.Helper()
	generated, err := c.FillSecrets(c.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	return c, generated
}

func TestSecretsAreMadeOnceAndReadAgain(t *testing.T) {
	c := loaded(t)
	first, generated := filled(t, c)
	want := []GeneratedSecret{
		{"SENDCODE_API_KEY", "API key", first.APIKey.Reveal()},
		{"SENDCODE_ADMIN_PASSWORD", "password", first.AdminPassword.Reveal()},
	}
	if !reflect.DeepEqual(generated, want) || !first.SecretKeys.IsSet() {
		t.Errorf("generated %+v", generated)
	}
	if a := first.Apps[0]; len(a.Keys) != 1 || a.Keys[0].SHA256 != sumOf(first.APIKey.Reveal()) {
		t.Errorf("the key does not open the app: %+v", a)
	}
	if len(first.IndexKeyBytes()) != 32 || len(first.AdminPassword.Reveal()) != 20 || len(first.APIKey.Reveal()) != 35 {
		t.Error("a secret has another length than said")
	}
	again := loaded(t)
	again.DataDir = c.DataDir
	second, generated := filled(t, again)
	if !reflect.DeepEqual(first, second) || !reflect.DeepEqual(generated, want) {
		t.Errorf("the second start has other secrets: %+v", generated)
	}
	other, _ := filled(t, loaded(t))
	if other.SecretKeys.Reveal() == first.SecretKeys.Reveal() || other.IndexKey.Reveal() == first.IndexKey.Reveal() ||
		other.APIKey.Reveal() == first.APIKey.Reveal() || other.AdminPassword.Reveal() == first.AdminPassword.Reveal() {
		t.Error("two directories share a secret")
	}
}

func TestSecretsAreForTheOwnerOnly(t *testing.T) {
	c := loaded(t)
	filled(t, c)
	secrets := filepath.Join(c.DataDir, "secrets.yaml")
	for path, want := range map[string]os.FileMode{c.DataDir: 0o700, filepath.Dir(c.DataDir): 0o700, secrets: 0o600, secrets + ".lock": 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %o", filepath.Base(path), info, err, want)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(secrets, mode); err != nil {
			t.Fatal(err)
		}
		again := c
		if _, err := again.FillSecrets(c.DataDir); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("%o: %v", mode, err)
		}
	}
}

func TestGivenSecretsWin(t *testing.T) {
	c := loaded(t, "SENDCODE_API_KEY="+goodKey, "SENDCODE_INDEX_KEY="+goodIndex, "SENDCODE_ADMIN_PASSWORD_HASH="+goodHash)
	c, generated := filled(t, c)
	if c.APIKey.Reveal() != goodKey || c.IndexKey.Reveal() != goodIndex || c.AdminPassword.IsSet() || len(generated) != 0 || len(c.Apps[0].Keys) != 1 {
		t.Errorf("generated over what was given: %+v", generated)
	}
	if !c.SecretKeys.IsSet() {
		t.Error("the ring is missing")
	}
	// A variable that is dropped later is made up for by the file, which has held all of them from the start.
	later := loaded(t)
	later.DataDir = c.DataDir
	later, generated = filled(t, later)
	if len(generated) != 2 || later.SecretKeys.Reveal() != c.SecretKeys.Reveal() {
		t.Errorf("later: %+v", generated)
	}
}

func TestNothingIsGeneratedWithoutNeed(t *testing.T) {
	for name, c := range map[string]Config{
		"all given": loaded(t, "SENDCODE_SECRET_KEYS="+goodRing, "SENDCODE_INDEX_KEY="+goodIndex, "SENDCODE_API_KEY="+goodKey,
			"SENDCODE_ADMIN_PASSWORD=a long password", "SENDCODE_DATABASE_URL=postgres://h/d"),
		"reachable, console off": loaded(t, without(reachable, "SENDCODE_ADMIN_PASSWORD_HASH")...),
	} {
		before := c.YAML()
		c, generated := filled(t, c)
		if _, err := os.Stat(c.DataDir); len(generated) != 0 || !errors.Is(err, os.ErrNotExist) || c.YAML() != before {
			t.Errorf("%s: generated %v, directory %v", name, generated, err)
		}
		if c.NeedsDataDir() {
			t.Errorf("%s: needs its directory", name)
		}
	}
	for _, environ := range [][]string{without(reachable, "SENDCODE_DATABASE_URL"), {"SENDCODE_DATABASE_URL=postgres://h/d"}} {
		if c := loaded(t, environ...); !c.NeedsDataDir() {
			t.Error("SQLite, and generated secrets, need the directory")
		}
	}
}

func TestAnAppWithKeysOfItsOwnNeedsNoGeneratedOne(t *testing.T) {
	c := must(t, fmt.Sprintf("apps: [{name: default, keys: [{id: a, kind: secret, sha256: %x}]}]", sumOf("sk_x")))
	c.DataDir = t.TempDir()
	if c, generated := filled(t, c); c.APIKey.IsSet() || len(generated) != 1 || len(c.Apps[0].Keys) != 1 {
		t.Errorf("generated %+v", generated)
	}
}

// Every way to damage the file that comes to mind ends in an error that shows no secret, and leaves the file as it is.
func TestDamagedSecretsAreNeverMadeAnew(t *testing.T) {
	c, _ := filled(t, loaded(t))
	path := filepath.Join(c.DataDir, "secrets.yaml")
	whole := read(t, path)
	damaged := map[string]string{"empty": "", "zeros": strings.Repeat("\x00", len(whole)), "not YAML": "{", "other": "hello: world\n",
		"an extra": whole + "more: 1\n", "twice": whole + strings.SplitAfter(whole, "\n")[2]}
	for cut := strings.Index(whole, "secret_keys"); cut < len(whole)-2; cut += 7 {
		damaged[fmt.Sprintf("cut at %d", cut)] = whole[:cut]
	}
	for _, s := range storedSecrets {
		damaged["short "+s.key] = strings.Replace(whole, s.key+`: "`, s.key+`: "x" # "`, 1)
		damaged["null "+s.key] = strings.Replace(whole, s.key+": ", s.key+": ~ # ", 1)
	}
	for name, content := range damaged {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		again := loaded(t)
		_, err := again.FillSecrets(c.DataDir)
		if err == nil || !strings.Contains(err.Error(), "secrets.yaml is damaged") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, s := range []Secret{c.SecretKeys, c.IndexKey, c.APIKey, c.AdminPassword} {
			if strings.Contains(err.Error(), s.Reveal()[len(s.Reveal())-8:]) {
				t.Errorf("%s shows a piece of a secret", name)
			}
		}
		if again.SecretKeys.IsSet() || again.APIKey.IsSet() {
			t.Errorf("%s: half filled", name)
		}
		if now, _ := os.ReadFile(path); string(now) != content {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// A database without the keys that it was written with is no first start.
func TestLostSecretsAreNeverMadeAnew(t *testing.T) {
	c := loaded(t)
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.DataDir, "sendcode.db"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := c.FillSecrets(c.DataDir)
	if err == nil || !strings.Contains(err.Error(), "secrets.yaml is missing, but sendcode.db") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, "secrets.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file was made")
	}
	given := loaded(t, "SENDCODE_SECRET_KEYS="+goodRing, "SENDCODE_INDEX_KEY="+goodIndex)
	if _, err := given.FillSecrets(c.DataDir); err != nil {
		t.Errorf("with the keys that matter given: %v", err)
	}
}

func TestDataDirThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := loaded(t)
	if _, err := c.FillSecrets(file); err == nil || !strings.Contains(err.Error(), "cannot be made: not a directory") {
		t.Errorf("fill: %v", err)
	}
	if _, err := LockDataDir(file); err == nil || !strings.Contains(err.Error(), "cannot be made: not a directory") {
		t.Errorf("lock: %v", err)
	}
}

func TestStartsAtOnceAgreeOnTheSecrets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	keys := make([]string, 16)
	var wg sync.WaitGroup
	for i := range keys {
		c := loaded(t)
		wg.Go(func() {
			if _, err := c.FillSecrets(dir); err != nil {
				t.Error(err)
			}
			keys[i] = c.SecretKeys.Reveal() + c.APIKey.Reveal()
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] || k == "" {
			t.Fatal("two starts have different secrets")
		}
	}
}

// A write that fails halfway leaves neither a file nor a piece of one.
func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "secrets.yaml") // a directory cannot be replaced by a file
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeSecrets(taken, map[string]string{keyAPIKey: goodKey}); err == nil {
		t.Error("written over a directory")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
