package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

// loadWithDataDir returns a configuration whose data directory does not exist yet.
func loadWithDataDir(t *testing.T, environ ...string) Config {
	t.Helper()
	c := must(t, "", environ...)
	c.DataDir = filepath.Join(t.TempDir(), "deep", strings.Repeat("folder-", 14), "data") // a long path: errors must still name the file
	return c
}

// addSecrets calls LoadOrCreateSecrets. It returns the configuration with all secrets, and the
// secrets to show.
func addSecrets(t *testing.T, c Config) (Config, []ShownSecret) {
	t.Helper()
	generated, err := c.LoadOrCreateSecrets(c.DataDir)
	servertest.OK(t, err)
	return c, generated
}

// failsWith checks that an error names the reason for which a data directory is refused.
func failsWith(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: %v, want %q", what, err, reason)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	servertest.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	servertest.OK(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestSecretsAreMadeOnceAndReadAgain(t *testing.T) {
	c := loadWithDataDir(t)
	first, generated := addSecrets(t, c)
	want := []ShownSecret{
		{"SENDCODE_API_KEY", "API key", first.APIKey.Reveal()},
		{"SENDCODE_ADMIN_PASSWORD", "password", first.AdminPassword.Reveal()},
	}
	wantEqual(t, "generated", generated, want)
	wantEqual(t, "key of the app", first.Apps[0].Keys[0].SHA256, sumOf(first.APIKey.Reveal()))
	wantEqual(t, "lengths", []int{len(first.IndexKeyBytes()), len(first.AdminPassword.Reveal()), len(first.APIKey.Reveal())}, []int{32, 20, 35})
	again := loadWithDataDir(t)
	again.DataDir = c.DataDir
	second, generated := addSecrets(t, again)
	wantEqual(t, "second start", second, first)
	wantEqual(t, "generated again", generated, want)
	other, _ := addSecrets(t, loadWithDataDir(t))
	for _, s := range storedSecrets {
		if s.of(&first).Reveal() == s.of(&other).Reveal() || !s.of(&first).IsSet() {
			t.Errorf("two directories share the %s", s.key)
		}
	}
}

// The file has the secrets that the service needs and no setting gives. An API key and a password
// are generated only in a trial: on loopback, with the embedded database, and without a trusted
// proxy. If an app has a secret key, no API key is generated. If no secret is needed, the directory
// is not touched.
func TestGeneratedSecrets(t *testing.T) {
	const key, password, ring, index = "api_key ", "admin_password ", "secret_keys ", "index_key "
	postgres := "SENDCODE_DATABASE_URL=postgres://h/d"
	given := []string{"SENDCODE_API_KEY=" + goodKey, "SENDCODE_INDEX_KEY=" + goodIndex, "SENDCODE_ADMIN_PASSWORD_HASH=" + goodHash}
	keyOf := func(app, kind string) string {
		return fmt.Sprintf("apps: [{name: %s, keys: [{id: a, kind: %s, sha256: %x}]}]", app, kind, sumOf("k"))
	}
	for name, test := range map[string]struct {
		yaml    string
		environ []string
		kept    string
	}{
		"nothing given":   {"", nil, key + password + ring + index},
		"a mail server":   {"", []string{"SENDCODE_SMTP_URL=smtp://h"}, key + password + ring + index},
		"Postgres":        {"", []string{postgres}, ring + index},
		"a trusted proxy": {"", []string{"SENDCODE_TRUSTED_PROXIES=127.0.0.1"}, ring + index},
		"its secret key":  {keyOf("default", "secret"), nil, password + ring + index},
		"another app's":   {keyOf("shop", "secret"), nil, password + ring + index},
		"a public key":    {keyOf("shop", "public"), nil, key + password + ring + index},
		"variables' public key": {
			"",
			[]string{"SENDCODE_PUBLIC_KEY=pk_" + goodKey[3:], "SENDCODE_ORIGINS=https://shop.example"},
			key + password + ring + index,
		},
		"all but the ring":       {"", given, ring},
		"all":                    {"", append(given, "SENDCODE_SECRET_KEYS="+goodRing, postgres), ""},
		"reachable, console off": {"", without(reachable, "SENDCODE_ADMIN_PASSWORD_HASH"), ""},
		"reachable, SQLite":      {"", without(reachable, "SENDCODE_DATABASE_URL"), ""},
	} {
		before := must(t, test.yaml, test.environ...)
		before.DataDir = filepath.Join(t.TempDir(), "data")
		generates := before.GeneratesAPIKey()
		hasPassword := before.AdminHasPassword()
		c, shown := addSecrets(t, before)
		names := ""
		for _, s := range shown {
			names += strings.ToLower(strings.TrimPrefix(s.Name, "SENDCODE_")) + " "
		}
		wantEqual(t, name+": shown", names, strings.TrimSuffix(strings.TrimSuffix(test.kept, index), ring))
		wantEqual(t, name+": password of admin", hasPassword, c.AdminPassword.IsSet() || c.AdminPasswordHash.IsSet())
		wantEqual(t, name+": public key for pages on this machine", c.LocalPublicKey != "", strings.Contains(test.kept, key))
		wantEqual(t, name+": API key", generates && c.GeneratesAPIKey(), strings.Contains(test.kept, key))
		kept := ""
		if _, err := os.Stat(c.DataDir); err == nil {
			for line := range strings.Lines(read(t, filepath.Join(c.DataDir, SecretsFile))) {
				if setting, _, found := strings.Cut(line, ": \""); found {
					kept += setting + " "
				}
			}
		}
		wantEqual(t, name+": kept", kept, test.kept)
		for _, s := range storedSecrets {
			if given := s.of(&before).Reveal(); given != "" {
				wantEqual(t, name+": "+s.key, s.of(&c).Reveal(), given)
			}
		}
	}
}

// If the variable of the password is removed later, the service generates a password. If the
// variable of the keys is removed, the start fails: a new key is not generated, since a database
// may have been written with the old one.
func TestLoadOrCreateSecretsThatAreGivenNoMore(t *testing.T) {
	given := loadWithDataDir(t, "SENDCODE_SECRET_KEYS="+goodRing, "SENDCODE_ADMIN_PASSWORD=a long enough password")
	first, _ := addSecrets(t, given)
	path := filepath.Join(given.DataDir, SecretsFile)
	wantEqual(t, "what is given in the file", strings.Contains(read(t, path), "secret_keys: "), false)
	later := loadWithDataDir(t, "SENDCODE_SECRET_KEYS="+goodRing)
	later.DataDir = given.DataDir
	second, _ := addSecrets(t, later)
	wantEqual(t, "the others", second.APIKey.Reveal()+second.IndexKey.Reveal(), first.APIKey.Reveal()+first.IndexKey.Reveal())
	wantEqual(t, "the password in the file", strings.Contains(read(t, path), second.AdminPassword.Reveal()), true)
	whole := read(t, path)
	lost := loadWithDataDir(t)
	_, err := lost.LoadOrCreateSecrets(given.DataDir)
	failsWith(t, "the ring", err, "secrets.yaml is damaged (secret_keys)")
	wantEqual(t, "the file", read(t, path), whole)
}

func TestSecretsAreForTheOwnerOnly(t *testing.T) {
	c := loadWithDataDir(t)
	addSecrets(t, c)
	secrets := filepath.Join(c.DataDir, "secrets.yaml")
	for path, want := range map[string]os.FileMode{
		c.DataDir: 0o700, filepath.Dir(c.DataDir): 0o700, secrets: 0o600,
		secrets + ".lock": 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %o", filepath.Base(path), info, err, want)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		servertest.OK(t, os.Chmod(secrets, mode))
		_, err := c.LoadOrCreateSecrets(c.DataDir)
		failsWith(t, mode.String(), err, "chmod 600")
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	for mode, refused := range map[os.FileMode]bool{0o660: false, 0o640: false, 0o664: true, 0o600: false} {
		servertest.OK(t, os.Chmod(secrets, mode))
		again := c
		_, err := again.LoadOrCreateSecrets(c.DataDir)
		wantEqual(t, mode.String()+" is refused", err != nil, refused)
		c.UpdateWarnings(time.Now())
		wantEqual(t, mode.String()+" is warned of", strings.Contains(strings.Join(c.Warnings, "\n"), "by its group"), !refused && mode != 0o600)
	}
	if os.Chown(secrets, -1, 54321) == nil { // only root may give the file to another group
		servertest.OK(t, os.Chmod(secrets, 0o660))
		_, err := c.LoadOrCreateSecrets(c.DataDir)
		failsWith(t, "a foreign group", err, "chmod 600")
	}
}

// LoadOrCreateSecrets of a damaged file returns an error that shows no secret, and leaves the file
// unchanged.
func TestDamagedSecretsAreNeverMadeAnew(t *testing.T) {
	c, _ := addSecrets(t, loadWithDataDir(t))
	path := filepath.Join(c.DataDir, "secrets.yaml")
	whole := read(t, path)
	damaged := map[string]string{
		"empty": "", "zeros": strings.Repeat("\x00", len(whole)), "not YAML": "{", "other": "hello: world\n",
		"an extra": whole + "more: 1\n", "twice": whole + strings.SplitAfter(whole, "\n")[2],
	}
	for cut := strings.Index(whole, "secret_keys"); cut < len(whole)-2; cut += 7 {
		damaged[fmt.Sprintf("cut at %d", cut)] = whole[:cut]
	}
	for _, s := range storedSecrets {
		damaged["short "+s.key] = strings.Replace(whole, s.key+`: "`, s.key+`: "x" # "`, 1)
		damaged["null "+s.key] = strings.Replace(whole, s.key+": ", s.key+": ~ # ", 1)
	}
	for name, content := range damaged {
		write(t, path, content)
		again := loadWithDataDir(t)
		_, err := again.LoadOrCreateSecrets(c.DataDir)
		failsWith(t, name, err, "secrets.yaml is damaged")
		for _, s := range storedSecrets {
			if value := s.of(&c).Reveal(); strings.Contains(fmt.Sprint(err), value[len(value)-8:]) || s.of(&again).IsSet() {
				t.Errorf("%s: the %s is shown or filled in: %v", name, s.key, err)
			}
		}
		wantEqual(t, name+": the file", read(t, path), content)
	}
}

// LoadOrCreateSecrets generates no keys beside a database, even if there is no file of secrets.
func TestLostSecretsAreNeverMadeAnew(t *testing.T) {
	c := loadWithDataDir(t)
	write(t, filepath.Join(c.DataDir, "sendcode.db"), "x")
	_, err := c.LoadOrCreateSecrets(c.DataDir)
	failsWith(t, "no keys", err, "secrets.yaml is missing, but the database sendcode.db")
	if _, err := os.Stat(filepath.Join(c.DataDir, "secrets.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file was made")
	}
	given := loadWithDataDir(t, "SENDCODE_SECRET_KEYS="+goodRing, "SENDCODE_INDEX_KEY="+goodIndex)
	if _, err := given.LoadOrCreateSecrets(c.DataDir); err != nil {
		t.Errorf("with the keys that matter given: %v", err)
	}
}

// An unusable data directory leads to an error. If the program can't find out whether there is a
// database, it assumes one, so that no new keys are generated for it.
func TestDataDirThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	c := loadWithDataDir(t)
	_, err := c.LoadOrCreateSecrets(file)
	failsWith(t, "fill", err, "cannot be made: not a directory")
	_, err = LockDataDir(t.Context(), file, 0)
	failsWith(t, "lock", err, "cannot be made: not a directory")
	wantEqual(t, "a database may be there", DatabaseFileMayExist(file), true)
}

// A start that is interrupted while it waits for the lock returns ctx's error, not ErrDataDirInUse.
func TestLockDataDirInterrupted(t *testing.T) {
	dir := t.TempDir()
	release, err := LockDataDir(t.Context(), dir, 0)
	servertest.OK(t, err)
	defer func() { _ = release() }()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(lockRetryEvery, cancel)
	if _, err := LockDataDir(ctx, dir, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := LockDataDir(t.Context(), dir, lockRetryEvery); !errors.Is(err, ErrDataDirInUse) {
		t.Error(err)
	}
}

func TestStartsAtOnceAgreeOnTheSecrets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	keys := make([]string, 16)
	var wg sync.WaitGroup
	for i := range keys {
		c := loadWithDataDir(t)
		wg.Go(func() {
			if _, err := c.LoadOrCreateSecrets(dir); err != nil {
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
	servertest.OK(t, os.Mkdir(taken, 0o700))
	if err := writeSecrets(taken, map[string]string{"api_key": goodKey}); err == nil {
		t.Error("written over a directory")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
