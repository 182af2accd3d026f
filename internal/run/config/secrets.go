package config

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sendcode/internal/codes/keys"
)

func checkSecretKeys(value string) string {
	if _, err := keys.Parse(value); err != nil {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return ""
}

// checkIndexKey returns a problem with the index key, or "". The index key must be as long and as
// random as a key of secret_keys.
func checkIndexKey(value string) string {
	if strings.ContainsAny(value, ":,") {
		return "must be only base64, without an id"
	}
	if _, err := keys.Parse("index:" + value); err != nil {
		return strings.TrimPrefix(err.Error(), "entry 1: ")
	}
	return ""
}

// IndexKeyBytes returns the decoded IndexKey, at least 32 bytes. If IndexKey is not set, it returns
// nil.
func (c Config) IndexKeyBytes() []byte {
	if !c.IndexKey.IsSet() {
		return nil
	}
	key, _ := keys.DecodeKey(c.IndexKey.Reveal()) // checked when it was read
	return key
}

// apiKeyShape matches a secret key. The prefix distinguishes a secret key from a public key. A
// secret key has only characters that are allowed in a header.
var apiKeyShape = regexp.MustCompile(`^sk_[A-Za-z0-9_-]{8,200}$`)

// minAPIKeyLength is the shortest length of an API key if other machines can reach the service. The
// prefix has 3 characters. The other 20 characters have 119 bits if they are random letters and
// digits.
const minAPIKeyLength = 23

func checkDefaultAppKey(value string) string {
	switch {
	case strings.HasPrefix(value, "pk_"):
		return "is a public key; the API key of the app default is a secret one (sk_…)"
	case !apiKeyShape.MatchString(value):
		return "must be sk_ and at least 8 letters, digits, _ or -; make one with `sendcode key`"
	}
	return ""
}

var publicKeyShape = regexp.MustCompile(`^pk_[A-Za-z0-9_-]{20,200}$`)

func checkPublicKey(value string) string {
	return problemIf(!publicKeyShape.MatchString(value),
		"must be pk_ and at least 20 letters, digits, _ or -; make one with `sendcode key --kind public`")
}

// checkOrigins returns the problem with a comma-separated list of origins, or "".
func checkOrigins(value string) string {
	for origin := range strings.SplitSeq(value, ",") {
		if problem := checkPageOrigin(strings.TrimSpace(origin)); problem != "" {
			return problem
		}
	}
	return ""
}

const minPasswordLength = 12 // characters

func checkAdminPassword(value string) string {
	switch {
	case strings.HasPrefix(value, "$argon2"):
		return "is a hash; give it as SENDCODE_ADMIN_PASSWORD_HASH"
	case utf8.RuneCountInString(value) < minPasswordLength:
		return "must have at least " + strconv.Itoa(minPasswordLength) + " characters"
	case strings.Count(value, string([]rune(value)[0])) == utf8.RuneCountInString(value):
		return "is one repeated character"
	}
	return ""
}

// argon2Pattern matches an argon2id hash in PHC form, with its parameters in canonical order.
var argon2Pattern = regexp.MustCompile(
	`^\$argon2id\$v=19\$m=([1-9]\d{0,9}),t=([1-9]\d{0,9}),p=([1-9]\d{0,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$`)

// checkAdminPasswordHash checks the argon2id hash of the admin's password. It returns the problem,
// or "". The hash must be at least as strong as the minimum in OWASP's password storage cheat sheet
// (7 MiB, five passes). It must also be cheap enough that a few logins do not overload the server.
func checkAdminPasswordHash(value string) string {
	found := argon2Pattern.FindStringSubmatch(value)
	if found == nil {
		return "must be an argon2id hash such as $argon2id$v=19$m=65536,t=3,p=4$salt$hash"
	}
	memory, _ := strconv.ParseUint(found[1], 10, 64) // KiB
	passes, _ := strconv.ParseUint(found[2], 10, 64)
	lanes, _ := strconv.ParseUint(found[3], 10, 64)
	salt, saltErr := base64.RawStdEncoding.DecodeString(found[4])
	sum, sumErr := base64.RawStdEncoding.DecodeString(found[5])
	switch {
	case saltErr != nil || sumErr != nil || len(salt) < 8 || len(salt) > 64 || len(sum) < 16 || len(sum) > 64:
		return "the salt must have 8 to 64 bytes and the hash 16 to 64, in base64 without padding"
	case memory < 7168 || memory > 1<<20:
		return "m must be from 7168 to 1048576 (KiB)"
	case passes > 20 || memory*passes < 5*7168:
		return "t must be at most 20, and m times t at least 35840"
	case lanes > 255:
		return "p must be at most 255"
	}
	return ""
}

// addAPIKey adds the key of SENDCODE_API_KEY to defaultApp.
func (c *Config) addAPIKey() {
	if c.APIKey.IsSet() {
		k := appKey{ID: apiKeyID, Kind: SecretKeyKind, SHA256: sha256.Sum256([]byte(c.APIKey.Reveal()))}
		c.Apps[0].Keys = append(c.Apps[0].Keys, k)
	}
}

// addPublicKey adds the key of SENDCODE_PUBLIC_KEY and the origins of SENDCODE_ORIGINS to
// defaultApp.
func (c *Config) addPublicKey() {
	if !c.PublicKey.IsSet() {
		return
	}
	app := &c.Apps[0]
	app.Keys = append(app.Keys, appKey{
		ID: publicKeyID, Kind: publicKeyKind,
		SHA256: sha256.Sum256([]byte(c.PublicKey.Reveal())),
	})
	if !c.Origins.IsSet() {
		return
	}
	for origin := range strings.SplitSeq(c.Origins.Reveal(), ",") {
		origin = strings.TrimSpace(origin)
		if !slices.Contains(app.Origins, origin) {
			app.Origins = append(app.Origins, origin)
		}
	}
}

// apiKeyBytes is the number of random bytes in an API key. 24 bytes are 192 bits, or 32 characters
// in base64.
const apiKeyBytes = 24

// NewAPIKey makes an API key, sk_… or pk_…, and returns it with its SHA-256 in hex. The hash goes
// into the settings file. NewAPIKey stores neither.
func NewAPIKey(kind KeyKind) (key, sha256hex string) {
	prefix := "sk_"
	if kind == publicKeyKind {
		prefix = "pk_"
	}
	key = prefix + randomText(apiKeyBytes)
	sum := sha256.Sum256([]byte(key))
	return key, hex.EncodeToString(sum[:])
}

// LocalOrigins are the origins of pages on this machine that may use LocalPublicKey: the usual
// ports of development servers.
var LocalOrigins = localOrigins(3000, 4200, 5173, 8000)

func localOrigins(ports ...int) (all []string) {
	for _, host := range []string{"http://localhost:", "http://127.0.0.1:"} {
		for _, port := range ports {
			all = append(all, host+strconv.Itoa(port))
		}
	}
	return all
}

// addLocalPublicKey sets LocalPublicKey. It derives the key from the generated secret key, so the
// public key stays the same without being stored.
func (c *Config) addLocalPublicKey() {
	mac := hmac.New(sha256.New, []byte(c.APIKey.Reveal()))
	mac.Write([]byte("public key for pages on this machine"))
	c.LocalPublicKey = "pk_" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:apiKeyBytes])
}

// MailboxKey returns the secret that opens the dev mailbox. It is derived from the index key, so it
// stays the same without being stored. Call it after LoadOrCreateSecrets.
func (c Config) MailboxKey() string { return c.derivedSecret("mailbox") }

// TrialMetricsToken returns the token of /metrics for a trial. A trial is a service that listens
// only on loopback, trusts no proxy and uses SQLite. TrialMetricsToken returns "" if this is no
// trial or if MetricsToken is set. It also returns "" if AdminAddr is set, because then /metrics
// has an address of its own and needs no token. Call LoadOrCreateSecrets first.
func (c Config) TrialMetricsToken() string {
	if !c.isTrial() || c.MetricsToken.IsSet() || c.AdminAddr != "" {
		return ""
	}
	return c.derivedSecret("metrics")
}

func (c Config) derivedSecret(label string) string {
	mac := hmac.New(sha256.New, c.IndexKeyBytes())
	mac.Write([]byte("secret of this data directory: " + label))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:apiKeyBytes])
}

// GenerateSecretVariables returns lines of the form NAME=value. They are for a deployment that
// gives all secrets by environment variables. The lines have every secret that the service would
// otherwise generate in the data directory, a public key, and the admin token that `sendcode
// doctor` needs.
func GenerateSecretVariables() string {
	secret, _ := NewAPIKey(SecretKeyKind)
	public, _ := NewAPIKey(publicKeyKind)
	var b strings.Builder
	for _, v := range []struct{ key, value string }{
		{"secret_keys", NewRingKey()},
		{"index_key", NewIndexKey()},
		{"api_key", secret},
		{"public_key", public},
		{"admin_password", randomText(passwordBytes)},
		{"admin_token", randomText(passwordBytes)},
	} {
		b.WriteString(envName(v.key) + "=" + v.value + "\n")
	}
	return b.String()
}

// randomText returns n random bytes in base64url. If the system has no randomness, the program
// stops.
func randomText(n int) string {
	random := make([]byte, n)
	rand.Read(random)
	return base64.RawURLEncoding.EncodeToString(random)
}

// NewRingKey makes an entry for SENDCODE_SECRET_KEYS, "id:base64".
func NewRingKey() string { return keys.GenerateEntry() }

// NewIndexKey makes a value for SENDCODE_INDEX_KEY, in base64.
func NewIndexKey() string {
	_, encoded, _ := strings.Cut(keys.GenerateEntry(), ":")
	return encoded
}
