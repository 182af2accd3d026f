package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
func filled(t *testing.T, c Config) (Config, []ShownSecret) {
	t.Helper()
	generated, err := c.FillSecrets(c.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	return c, generated
}

// failsWith checks that a data directory is refused for this reason.
func failsWith(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: %v, want %q", what, err, reason)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSecretsAreMadeOnceAndReadAgain(t *testing.T) {
	c := loaded(t)
	first, generated := filled(t, c)
	want := []ShownSecret{
		{"SENDCODE_API_KEY", "API key", first.APIKey.Reveal()},
		{"SENDCODE_ADMIN_PASSWORD", "password", first.AdminPassword.Reveal()},
	}
	is(t, "generated", generated, want)
	is(t, "key of the app", first.Apps[0].Keys[0].SHA256, sumOf(first.APIKey.Reveal()))
	is(t, "lengths", []int{len(first.IndexKeyBytes()), len(first.AdminPassword.Reveal()), len(first.APIKey.Reveal())},
		[]int{32, 20, 35})
	again := loaded(t)
	again.DataDir = c.DataDir
	second, generated := filled(t, again)
	is(t, "second start", second, first)
	is(t, "generated again", generated, want)
	other, _ := filled(t, loaded(t))
	for _, s := range storedSecrets {
		if s.of(&first).Reveal() == s.of(&other).Reveal() || !s.of(&first).IsSet() {
			t.Errorf("two directories share the %s", s.key)
		}
	}
}

// What a setting gives, or makes unnecessary, is not generated, and without need the directory is
// not touched. The file holds all secrets from the start, for a variable that is dropped later.
func TestGeneratedSecrets(t *testing.T) {
	const key, password = "SENDCODE_API_KEY ", "SENDCODE_ADMIN_PASSWORD "
	postgres := "SENDCODE_DATABASE_URL=postgres://h/d"
	given := []string{"SENDCODE_API_KEY=" + goodKey, "SENDCODE_INDEX_KEY=" + goodIndex,
		"SENDCODE_ADMIN_PASSWORD_HASH=" + goodHash}
	ownKeys := fmt.Sprintf("apps: [{name: default, keys: [{id: a, kind: secret, sha256: %x}]}]", sumOf("sk_x"))
	for name, test := range map[string]struct {
		yaml        string
		environ     []string
		generated   string
		keptSecrets bool
	}{
		"nothing given":          {"", nil, key + password, true},
		"Postgres":               {"", []string{postgres}, key + password, true},
		"all but the ring":       {"", given, "", true},
		"all":                    {"", append(given, "SENDCODE_SECRET_KEYS="+goodRing, postgres), "", false},
		"keys of the app":        {ownKeys, nil, password, true},
		"reachable, console off": {"", without(reachable, "SENDCODE_ADMIN_PASSWORD_HASH"), "", false},
		"reachable, SQLite":      {"", without(reachable, "SENDCODE_DATABASE_URL"), "", false},
	} {
		before := must(t, test.yaml, test.environ...)
		before.DataDir = filepath.Join(t.TempDir(), "data")
		c, generated := filled(t, before)
		names := ""
		for _, g := range generated {
			names += g.Name + " "
		}
		is(t, name, names, test.generated)
		_, err := os.Stat(c.DataDir)
		is(t, name+": directory", err == nil, test.keptSecrets)
		is(t, name+": keys of the app", len(c.Apps[0].Keys), 1)
		for _, s := range storedSecrets {
			if given := s.of(&before).Reveal(); given != "" {
				is(t, name+": "+s.key, s.of(&c).Reveal(), given)
			}
		}
		if later := loaded(t); test.keptSecrets {
			later.DataDir = c.DataDir
			later, _ = filled(t, later)
			is(t, name+": the ring later", later.SecretKeys.Reveal(), c.SecretKeys.Reveal())
		}
	}
}

func TestSecretsAreForTheOwnerOnly(t *testing.T) {
	c := loaded(t)
	filled(t, c)
	secrets := filepath.Join(c.DataDir, "secrets.yaml")
	for path, want := range map[string]os.FileMode{c.DataDir: 0o700, filepath.Dir(c.DataDir): 0o700, secrets: 0o600,
		secrets + ".lock": 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %o", filepath.Base(path), info, err, want)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(secrets, mode); err != nil {
			t.Fatal(err)
		}
		_, err := c.FillSecrets(c.DataDir)
		failsWith(t, mode.String(), err, "chmod 600")
	}
}

// Every way to damage the file that comes to mind ends in an error that shows no secret, and leaves
// the file as it is.
func TestDamagedSecretsAreNeverMadeAnew(t *testing.T) {
	c, _ := filled(t, loaded(t))
	path := filepath.Join(c.DataDir, "secrets.yaml")
	whole := read(t, path)
	damaged := map[string]string{"empty": "", "zeros": strings.Repeat("\x00", len(whole)), "not YAML": "{",
		"other":    "hello: world\n",
		"an extra": whole + "more: 1\n", "twice": whole + strings.SplitAfter(whole, "\n")[2]}
	for cut := strings.Index(whole, "secret_keys"); cut < len(whole)-2; cut += 7 {
		damaged[fmt.Sprintf("cut at %d", cut)] = whole[:cut]
	}
	for _, s := range storedSecrets {
		damaged["short "+s.key] = strings.Replace(whole, s.key+`: "`, s.key+`: "x" # "`, 1)
		damaged["null "+s.key] = strings.Replace(whole, s.key+": ", s.key+": ~ # ", 1)
	}
	for name, content := range damaged {
		write(t, path, content)
		again := loaded(t)
		_, err := again.FillSecrets(c.DataDir)
		failsWith(t, name, err, "secrets.yaml is damaged")
		for _, s := range storedSecrets {
			if value := s.of(&c).Reveal(); strings.Contains(fmt.Sprint(err), value[len(value)-8:]) ||
				s.of(&again).IsSet() {
				t.Errorf("%s: the %s is shown or filled in: %v", name, s.key, err)
			}
		}
		is(t, name+": the file", read(t, path), content)
	}
}

// A database without the keys that it was written with is no first start.
func TestLostSecretsAreNeverMadeAnew(t *testing.T) {
	c := loaded(t)
	write(t, filepath.Join(c.DataDir, "sendcode.db"), "x")
	_, err := c.FillSecrets(c.DataDir)
	failsWith(t, "no keys", err, "secrets.yaml is missing, but sendcode.db")
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
	write(t, file, "")
	c := loaded(t)
	_, err := c.FillSecrets(file)
	failsWith(t, "fill", err, "cannot be made: not a directory")
	_, err = LockDataDir(file)
	failsWith(t, "lock", err, "cannot be made: not a directory")
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
	if err := writeSecrets(taken, map[string]string{"api_key": goodKey}); err == nil {
		t.Error("written over a directory")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A database that cannot be looked for counts as one, so that its keys are not made anew.
func TestDatabaseFileExists(t *testing.T) {
	dir := t.TempDir()
	is(t, "in an empty directory", DatabaseFileExists(dir), false)
	file := filepath.Join(dir, DatabaseFile)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	is(t, "beside the file", DatabaseFileExists(dir), true)
	is(t, "in what is no directory", DatabaseFileExists(file), true)
}
