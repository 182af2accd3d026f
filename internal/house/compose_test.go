package house

import (
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/config"
)

type compose struct {
	Services map[string]composeService
	Volumes  map[string]any
	Networks map[string]struct{ Internal bool }
}

type composeService struct {
	Image, Build, User       string
	Command, Entrypoint      []string
	Environment              map[string]string
	DependsOn                map[string]struct{ Condition string } `yaml:"depends_on"`
	Volumes, Ports, Networks []string
	Healthcheck              struct{ Test []string }
	Privileged               bool
	NetworkMode              string `yaml:"network_mode"`
	ReadOnly                 bool   `yaml:"read_only"`
	Tmpfs                    []string
	CapDrop                  []string `yaml:"cap_drop"`
	CapAdd                   []string `yaml:"cap_add"`
	SecurityOpt              []string `yaml:"security_opt"`
	MemLimit                 string   `yaml:"mem_limit"`
	PidsLimit                int      `yaml:"pids_limit"`
}

func readCompose(t *testing.T) compose {
	t.Helper()
	var c compose
	if err := yaml.Unmarshal([]byte(readFile(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func randomKey() string {
	key := make([]byte, 32)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}

// filled is what an operator sets, as compose would read it from the environment.
func filled() map[string]string {
	return map[string]string{
		"POSTGRES_PASSWORD":       "s3cretwithoutsigns",
		"DATABASE_OWNER_PASSWORD": "0wnerwithoutsigns",
		"DATABASE_APP_PASSWORD":   "appw1thoutsigns",
		"REDIS_PASSWORD":          "r3diswithoutsigns",
		"SENDCODE_SMTP_URL":       "smtp://user:password@mail.example.com:587",
		"SENDCODE_MAIL_FROM":      "Shop <no-reply@shop.example>",
		"SENDCODE_SECRET_KEYS":    "k1:" + randomKey(),
		"SENDCODE_INDEX_KEY":      randomKey(),
		"SENDCODE_API_KEY":        "sk_" + strings.Repeat("a1B2", 8),
		"SENDCODE_ADMIN_PASSWORD": "correct horse battery",
	}
}

// The program refuses variables that it does not know and values that it cannot use.
func TestComposeConfiguresTheProgram(t *testing.T) {
	for _, service := range []string{"sendcode", "migrate"} {
		configures(t, readCompose(t).Services[service].Environment)
	}
}

func configures(t *testing.T, environment map[string]string) {
	given := filled()
	var environ []string
	for name, value := range environment {
		environ = append(environ, name+"="+os.Expand(value, func(reference string) string {
			if _, byDefault, optional := strings.Cut(reference, ":-"); optional {
				return byDefault
			}
			variable, _, required := strings.Cut(reference, ":?")
			if given[variable] == "" || !required {
				t.Errorf("%s uses ${%s}: not a required variable that this test sets", name, reference)
			}
			return given[variable]
		}))
	}
	cfg, err := config.Load(environ, func(string) ([]byte, error) { return nil, fs.ErrNotExist })
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings: %q", cfg.Warnings)
	}
}

func TestComposeKeepsItsData(t *testing.T) {
	c := readCompose(t)
	for name, want := range map[string]string{"redis": "redis:/data", "postgres": "postgres:/var/lib/postgresql/data"} {
		service := c.Services[name]
		if _, declared := c.Volumes[name]; !declared || !slices.Contains(service.Volumes, want) {
			t.Errorf("%s keeps nothing in a volume: %v", name, service.Volumes)
		}
		if len(service.Healthcheck.Test) == 0 || c.Services["sendcode"].DependsOn[name].Condition != "service_healthy" {
			t.Errorf("sendcode does not wait until %s is healthy", name)
		}
	}
	redis := readFile(t, "deploy/redis/start.sh")
	if !strings.Contains(redis, "\nappendonly yes\n") || !strings.Contains(redis, "\nmaxmemory-policy noeviction\n") {
		t.Errorf("redis may forget: %s", redis)
	}
}
