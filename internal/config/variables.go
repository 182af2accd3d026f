package config

import (
	"reflect"
	"regexp"
	"strings"

	"sendcode/internal/config/document"
)

const prefix = "SENDCODE_"

// The settings that are named outside of Config.
const (
	keyAddr              = "addr"
	keyAdminAddr         = "admin_addr"
	keySMTPURL           = "smtp_url"
	keySecretKeys        = "secret_keys"
	keyIndexKey          = "index_key"
	keyAPIKey            = "api_key"
	keyAdminPassword     = "admin_password"
	keyAdminPasswordHash = "admin_password_hash"
	keyWebhookSecrets    = "webhook_secrets"
	keyConfig            = "config"
)

// variable is one setting that the environment may give.
type variable struct {
	key      string
	initial  string // what holds when it is not given
	fromFile bool   // SENDCODE_…_FILE may name a file that holds it
	inFile   bool   // the YAML file may give it: no secrets, so that the file can be shared
	list     bool   // a list in the file, values by commas in the environment
	index    []int  // of its field in Config
	tag      reflect.StructTag
}

// in is the variable's field.
func (v variable) in(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(v.index) }

var variables = variablesOf(reflect.TypeFor[Config](), nil)

// variablesOf reads the tags env of a struct and those in it. One in it is not the file's under the same name.
func variablesOf(t reflect.Type, index []int) (all []variable) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(index[:len(index):len(index)], i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		env, key, _ := strings.Cut(f.Tag.Get("env"), " ")
		switch {
		case env != "":
			v := variable{key: key, fromFile: env == "file", list: env == "list", index: at, tag: f.Tag}
			if key == "" {
				v.key, v.initial, v.inFile = name, f.Tag.Get("default"), f.Type != reflect.TypeFor[Secret]()
			}
			all = append(all, v)
		case f.Type.Kind() == reflect.Struct && !document.Single(f.Type):
			all = append(all, variablesOf(f.Type, at)...)
		}
	}
	return all
}

// envName is how the environment spells a setting.
func envName(key string) string { return prefix + strings.ToUpper(key) }

// envNames lists every variable that means something.
func envNames() []string {
	var names []string
	for _, v := range variables {
		names = append(names, envName(v.key))
		if v.fromFile {
			names = append(names, envName(v.key)+"_FILE")
		}
	}
	return names
}

// testPrefix is left to the project's own tests; the server ignores it.
const testPrefix = prefix + "TEST_"

// Kubernetes and Docker links tell every container about services near it. A service called "sendcode" or
// "sendcode-redis" thus sets variables that look like ours, and must not keep the program from starting
// (kubernetes.io, "Discovering services": {NAME}_SERVICE_HOST, and {NAME}_PORT=tcp://…).
var (
	serviceName = regexp.MustCompile(`^SENDCODE_(\w+_)?SERVICE_(HOST|PORT(_\w+)?)$`)
	linkName    = regexp.MustCompile(`^SENDCODE_(\w+_)?PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	linkURLName = regexp.MustCompile(`^SENDCODE_(\w+_)?PORT$`)
	linkURL     = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

func fromOrchestrator(name, value string) bool {
	return serviceName.MatchString(name) || linkName.MatchString(name) ||
		linkURLName.MatchString(name) && linkURL.MatchString(value)
}
