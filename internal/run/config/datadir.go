package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/run/disk"

	"github.com/gofrs/flock"
	"go.yaml.in/yaml/v3"
)

// DatabaseFile is the name of the SQLite file in the data directory.
const DatabaseFile = "sendcode.db"

// DatabaseFileMayExist reports whether the data directory has a SQLite file. If it cannot find out,
// it returns true. If it returned false instead, the service could generate new keys, although an
// existing file was written with other keys.
func DatabaseFileMayExist(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, DatabaseFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// SecretsFile is the name of the file with the generated secrets in the data directory.
const SecretsFile = "secrets.yaml"

const secretsFileHead = `# Made by sendcode and read at every start: what no setting gives. Keep it with the database beside it: without
# these keys, codes under way cannot be checked and limits start again. No other user may read it.
`

// loadOrCreateSecrets returns the secrets in the file secrets.yaml of the directory dir, by names
// such as "api_key". missing lists the secrets that no setting gives. loadOrCreateSecrets generates
// those of them that the file lacks. If a database may have been written with a key that the file
// lacks, it returns an error instead. A lock keeps other processes out until it returns.
func loadOrCreateSecrets(dir string, missing []storedSecret) (secrets map[string]string, err error) {
	if err := makeDataDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, SecretsFile)
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("%s cannot be locked: %s", document.PrintablePath(path), reasonWithoutPath(err))
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	secrets, err = readSecrets(path)
	first := errors.Is(err, fs.ErrNotExist)
	if err != nil && !first {
		return nil, err
	}
	missing = slices.DeleteFunc(slices.Clone(missing), func(s storedSecret) bool { return secrets[s.key] != "" })
	var keys []string
	for _, s := range missing {
		if s.isDatabaseKey() {
			keys = append(keys, s.key)
		}
	}
	switch {
	case len(missing) == 0:
		return secrets, nil
	case len(keys) > 0 && !first:
		return nil, damagedError(path, keys...)
	case len(keys) > 0 && DatabaseFileMayExist(dir):
		return nil, lostKeysError(path)
	case first:
		secrets = map[string]string{}
	}
	for _, s := range missing {
		secrets[s.key] = s.generate()
	}
	if err := writeSecrets(path, secrets); err != nil {
		return nil, fmt.Errorf("cannot store the generated secrets in %s: %s", document.PrintablePath(path),
			reasonWithoutPath(err))
	}
	return secrets, nil
}

// WithStoredKeys returns the configuration with the keys that encrypt or hash data in the database.
// If no setting gives such a key, WithStoredKeys reads the key from the data directory. If the data
// directory lacks the key, it returns an error. It writes nothing.
func (c Config) WithStoredKeys() (Config, error) {
	missing := slices.DeleteFunc(c.missingSecrets(), func(s storedSecret) bool { return !s.isDatabaseKey() })
	if len(missing) == 0 {
		return c, nil
	}
	path := filepath.Join(c.DataDir, SecretsFile)
	secrets, err := readSecrets(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, lostKeysError(path)
	}
	for _, s := range missing {
		if err == nil && secrets[s.key] == "" {
			err = damagedError(path, s.key)
		}
		*s.of(&c) = document.NewSecret(secrets[s.key])
	}
	return c, err
}

// lostKeysError returns the error for the case that a database exists, but the file with its
// secrets is missing.
func lostKeysError(path string) error {
	return fmt.Errorf("%s is missing, but the database %s was written with its keys: restore a copy of the missing file, or set "+
		"SENDCODE_SECRET_KEYS and SENDCODE_INDEX_KEY, or move the database away to start with an empty one",
		document.PrintablePath(path), DatabaseFile)
}

// damagedError returns the error for a file of secrets that lacks some secrets, or that was changed
// by hand.
func damagedError(path string, what ...string) error {
	return fmt.Errorf("%s is damaged (%s): restore a copy of it, or set its secrets as variables; "+
		"it is not generated again, since other keys would make pending codes invalid and begin all counts again",
		document.PrintablePath(path), strings.Join(what, ", "))
}

// readSecrets reads and checks the file of secrets. If the file does not exist, the error is
// fs.ErrNotExist. No error repeats the contents of the file.
func readSecrets(path string) (map[string]string, error) {
	info, err := os.Stat(path)
	var content []byte
	if err == nil {
		content, err = os.ReadFile(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %s", document.PrintablePath(path), reasonWithoutPath(err))
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" && !sharedByFSGroup(info): // Windows has no such bits
		return nil, fmt.Errorf("%s can be read or changed by other users: run chmod 600 on it",
			document.PrintablePath(path))
	}
	return parseSecrets(path, content)
}

// sharedByFSGroup reports whether Kubernetes' fsGroup made a file readable by its group. With
// fsGroup, the files of a volume belong to a group of the pod. The group gets the permission bits
// of the owner. https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
func sharedByFSGroup(info os.FileInfo) bool {
	perm := info.Mode().Perm()
	return perm&0o070 != 0 && perm&0o007 == 0 && os.Getenv("KUBERNETES_SERVICE_HOST") != "" && disk.OfOwnGroup(info)
}

func parseSecrets(path string, content []byte) (map[string]string, error) {
	secrets := map[string]string{}
	var wrong []string
	err := yaml.Unmarshal(content, &secrets)
	known := 0
	for _, s := range storedSecrets {
		value, found := secrets[s.key]
		if found {
			known++
		}
		if found && s.check(value) != "" {
			wrong = append(wrong, s.key)
		}
	}
	// the error is not shown, since it may quote a part of a key
	if err != nil || len(secrets) > known || known == 0 || len(content) > document.MaxSize {
		wrong = append(wrong, "not as it was written")
	}
	if len(wrong) > 0 {
		return nil, damagedError(path, wrong...)
	}
	return secrets, nil
}

func writeSecrets(path string, secrets map[string]string) error {
	body := secretsFileHead
	for _, s := range storedSecrets { // the quotes show whether the end of the file is missing
		if secrets[s.key] != "" {
			body += fmt.Sprintf("%s: %q\n", s.key, secrets[s.key])
		}
	}
	return WriteFile(path, func(f *os.File) error {
		_, err := f.WriteString(body)
		return err
	})
}

// BackUpSecrets writes a copy of the data directory's file of secrets to path. Like WriteFile, it
// replaces an existing file.
func BackUpSecrets(dir, path string) error {
	from := filepath.Join(dir, SecretsFile)
	secrets, err := readSecrets(from)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s, since settings give the secrets: leave out --with-secrets, and keep a copy of SENDCODE_SECRET_KEYS and SENDCODE_INDEX_KEY",
			document.PrintablePath(from))
	}
	if err != nil {
		return err
	}
	return writeSecrets(path, secrets)
}

// HasSecretsFile reports whether the data directory has a file of secrets.
func HasSecretsFile(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, SecretsFile))
	return err == nil
}

const lastBackupFileName = "last_backup"

// RecordBackup writes the instant of the last backup into a file of the data directory. All users
// may read this file, since the user who makes backups may not be the user of the service.
func RecordBackup(dir string, at time.Time) error {
	return WriteFile(filepath.Join(dir, lastBackupFileName), func(f *os.File) error {
		_, err := f.WriteString(at.UTC().Format(time.RFC3339) + "\n")
		return errors.Join(err, f.Chmod(0o644))
	})
}

// LastBackup returns the instant that RecordBackup wrote, to the second. If it cannot read the
// instant, it returns the zero time.
func LastBackup(dir string) time.Time {
	text, _ := os.ReadFile(filepath.Join(dir, lastBackupFileName))
	at, _ := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	return at
}

// WriteFile makes a file that only its owner may read, or replaces it. fill writes the contents to
// a file with a temporary name, which WriteFile renames to path when the contents are on the disk.
// After a crash the file at path is the new one, the previous one, or missing, but never half
// written.
func WriteFile(path string, fill func(f *os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after the rename there is nothing to remove
	if err := errors.Join(fill(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names of files in a directory outlive a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if runtime.GOOS == "windows" { // Windows can't sync a directory
		err = nil
	}
	return errors.Join(err, d.Close())
}

// lockRetryEvery is the time between two tries of LockDataDir.
const lockRetryEvery = 20 * time.Millisecond

// ErrDataDirInUse is the error if another process has locked the data directory.
var ErrDataDirInUse = errors.New("is in use by another sendcode process")

// LockDataDir locks a data directory for this process. If the directory does not exist, LockDataDir
// creates it (0700). While another process has the lock, LockDataDir tries again. If that process
// keeps the lock for longer than wait, LockDataDir returns an error that wraps ErrDataDirInUse. If
// ctx ends first, the error wraps the error of ctx.
//
// The lock ends when release is called or the process ends. The lock file stays. If it were
// removed, two processes could lock two files with the same name.
func LockDataDir(ctx context.Context, dir string, wait time.Duration) (release func() error, err error) {
	if err := makeDataDir(dir); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err == nil && !locked && wait > 0 {
		bounded, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		locked, err = lock.TryLockContext(bounded, lockRetryEvery)
		if !locked && bounded.Err() != nil {
			err = ctx.Err()
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("the data directory %s is not locked: %w", document.PrintablePath(dir), err)
	case err != nil:
		return nil, fmt.Errorf("the data directory %s cannot be locked: %s", document.PrintablePath(dir),
			reasonWithoutPath(err))
	case !locked:
		return nil, fmt.Errorf("the data directory %s %w: "+
			"stop that process, or give this one its own directory with SENDCODE_DATA_DIR", document.PrintablePath(dir),
			ErrDataDirInUse)
	}
	return lock.Unlock, nil
}

func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the data directory %s cannot be made: %s", document.PrintablePath(dir), reasonWithoutPath(err))
	}
	return nil
}

// ShownSecret is a generated secret that a person needs: the API key, or the password of the
// console.
type ShownSecret struct {
	Name  string // the variable that would replace it: "SENDCODE_API_KEY"
	Label string // for people: "API key", "password"
	Value string // in the clear, to be shown at the terminal
}

// LoadOrCreateSecrets reads the secrets that no setting gives from the file <dir>/secrets.yaml. It
// generates those that the file lacks, and writes the file atomically, readable only by its owner.
// It returns the secrets that a person has to type or copy: the API key and the password of the
// console. If other machines can reach the service, LoadOrCreateSecrets does nothing, because Load
// has refused a configuration that lacks secrets.
//
// A damaged file is an error, and the file stays unchanged. A missing file is an error if a
// database exists, because the database was written with the keys of the file. With other keys,
// pending codes would be invalid, and the counts of every recipient would begin again.
//
// The caller may have the lock of LockDataDir, but does not need it. LoadOrCreateSecrets has its
// own lock, so that replicas on one host get the same secrets.
func (c *Config) LoadOrCreateSecrets(dir string) ([]ShownSecret, error) {
	missing := c.missingSecrets()
	if len(missing) == 0 {
		return nil, nil
	}
	secrets, err := loadOrCreateSecrets(dir, missing)
	if err != nil {
		return nil, err
	}
	var generated []ShownSecret
	for _, s := range missing {
		*s.of(c) = document.NewSecret(secrets[s.key])
		if !s.isDatabaseKey() {
			generated = append(generated, ShownSecret{envName(s.key), s.label, secrets[s.key]})
		}
		if s.key == "api_key" {
			c.addAPIKey()
			c.addLocalPublicKey()
		}
	}
	return generated, nil
}

// storedSecret is a secret that the data directory may hold.
type storedSecret struct {
	key, label string // label is shown with the secret; it is "" for a key of the database
	of         func(*Config) *Secret
	generated  func(Config) bool // whether the secret is generated if no setting gives it
	check      func(string) string
	generate   func() string
}

// isDatabaseKey reports whether the secret is a key that encrypts or hashes data in the database.
func (s storedSecret) isDatabaseKey() bool { return s.label == "" }

// storedSecrets are all secrets of the data directory, in the order of their file. The keys of the
// database come last, so that a file that has lost its end lacks one of them. The service reports
// such a file as damaged, and never generates new keys for it.
var storedSecrets = []storedSecret{
	{
		"api_key", "API key", func(c *Config) *Secret { return &c.APIKey }, Config.GeneratesAPIKey,
		checkDefaultAppKey, func() string { key, _ := NewAPIKey(SecretKeyKind); return key },
	},
	{
		"admin_password", "password", func(c *Config) *Secret { return &c.AdminPassword }, Config.generatesPassword,
		checkAdminPassword, func() string { return randomText(passwordBytes) },
	},
	{"secret_keys", "", func(c *Config) *Secret { return &c.SecretKeys }, Config.Loopback, checkSecretKeys, NewRingKey},
	{"index_key", "", func(c *Config) *Secret { return &c.IndexKey }, Config.Loopback, checkIndexKey, NewIndexKey},
}

// missingSecrets returns the secrets that no setting gives, so that LoadOrCreateSecrets has to
// supply them.
func (c *Config) missingSecrets() (missing []storedSecret) {
	for _, s := range storedSecrets {
		if !s.of(c).IsSet() && s.generated(*c) {
			missing = append(missing, s)
		}
	}
	return missing
}

// passwordBytes is how many random bytes make a password, 20 characters to type.
const passwordBytes = 15
