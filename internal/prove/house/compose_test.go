package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/config"
)

type compose struct {
	Services map[string]composeService
	Volumes  map[string]any
	Secrets  map[string]struct{ File string }
	Networks map[string]struct{ Internal bool }
}

type composeService struct {
	Image, Build, User       string
	Command, Entrypoint      []string
	Environment              map[string]string
	DependsOn                map[string]struct{ Condition string } `yaml:"depends_on"`
	Volumes, Ports, Networks []string
	Secrets                  []string
	Healthcheck              struct{ Test []string }
	Privileged               bool
	NetworkMode              string   `yaml:"network_mode"`
	ReadOnly                 bool     `yaml:"read_only"`
	CapDrop                  []string `yaml:"cap_drop"`
	CapAdd                   []string `yaml:"cap_add"`
	SecurityOpt              []string `yaml:"security_opt"`
	MemLimit                 string   `yaml:"mem_limit"`
	PidsLimit                int      `yaml:"pids_limit"`
}

// composeFiles are the compose files for the form on one file, and for the form on Postgres and
// Redis.
var composeFiles = []string{"compose.yaml", "compose.postgres.yaml"}

func readCompose(t *testing.T, file string) compose {
	t.Helper()
	var c compose
	servertest.OK(t, yaml.Unmarshal([]byte(readFile(t, file)), &c))
	return c
}

// madeSecrets runs deploy/secrets.sh with keys as `sendcode key` makes them, and returns the folder
// with its files.
func madeSecrets(t *testing.T) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "a key")
	if err := os.WriteFile(key, []byte(`#!/bin/sh
case "$2" in ring) printf k1: && openssl rand -base64 32;; index) openssl rand -base64 32;; *) echo "sk_$(openssl rand -hex 16)";; esac
`), 0o700); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join(root, "deploy", "secrets.sh"))
	servertest.OK(t, err)
	run := exec.Command("sh", script, key)
	run.Dir = t.TempDir()
	if said, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", run, err, said)
	}
	folder := filepath.Join(run.Dir, "secrets")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may enter the folder of secrets: %v %v", info, err)
	}
	return folder
}

// The program accepts the settings in the compose files and the secrets of the script, without a
// warning. Each secret is a file of the script, and a container gets each secret whose file one of
// its variables names.
func TestComposeConfiguresTheProgram(t *testing.T) {
	folder := madeSecrets(t)
	read := func(file string) ([]byte, error) { return os.ReadFile(filepath.Join(folder, filepath.Base(file))) }
	for _, file := range composeFiles {
		c := readCompose(t, file)
		for name, s := range c.Secrets {
			if info, err := os.Stat(filepath.Join(folder, name)); s.File != "./secrets/"+name || err != nil || info.Mode().Perm() != 0o644 {
				t.Errorf("%s: the secret %s is %q, %v %v", file, name, s.File, info, err)
			}
		}
		for name, s := range c.Services {
			var environ []string
			for variable, value := range s.Environment {
				if secret, isFile := strings.CutPrefix(value, "/run/secrets/"); isFile &&
					(!slices.Contains(s.Secrets, secret) || c.Secrets[secret].File == "") {
					t.Errorf("%s: %s: %s has no secret %s", file, name, variable, secret)
				}
				value = os.Expand(value, func(string) string {
					return map[string]string{
						"SENDCODE_MAIL_FROM": "Shop <no-reply@shop.example>", "SENDCODE_PUBLIC_URL": "https://codes.shop.example",
					}[variable]
				})
				environ = append(environ, variable+"="+value)
			}
			if s.Build == "" {
				continue
			}
			cfg, err := config.Load(environ, read)
			if err != nil || len(cfg.Warnings) > 0 || cfg.AdminToken.IsSet() != (name == "sendcode") { // doctor --behind needs the token
				t.Errorf("%s: %s: %v, warnings %q, a token: %v", file, name, err, cfg.Warnings, cfg.AdminToken.IsSet())
			}
		}
	}
}

// kubernetesObject has the fields of a ConfigMap or a job that the tests read.
type kubernetesObject struct {
	Data map[string]string
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Env []struct{ Name, Value string }
				}
			}
		}
	}
}

// The program accepts the settings in the manifests of Kubernetes and in the image: in the form on
// one file, in the form with Postgres and Redis, and in the job that migrates, which has only the
// owner's URL.
func TestKubernetesConfiguresTheProgram(t *testing.T) {
	folder := madeSecrets(t)
	read := func(file string) ([]byte, error) {
		switch name := strings.ToLower(strings.TrimPrefix(filepath.Base(file), "SENDCODE_")); name {
		case "database_url":
			return []byte("postgres://sendcode:secret@db.example/sendcode?sslmode=verify-full"), nil
		case "redis_url":
			return []byte("rediss://sendcode:secret@redis.example"), nil
		default:
			return os.ReadFile(filepath.Join(folder, name))
		}
	}
	// set returns the settings in the file of a form, for the service and for the job.
	set := func(file string) (service, job []string) {
		for object := range strings.SplitSeq(readFile(t, file), "\n---\n") {
			var o kubernetesObject
			servertest.OK(t, yaml.Unmarshal([]byte(object), &o))
			for name, value := range o.Data {
				service = append(service, name+"="+value)
			}
			for _, c := range o.Spec.Template.Spec.Containers {
				for _, e := range c.Env {
					job = append(job, e.Name+"="+e.Value)
				}
			}
		}
		return service, job
	}
	one, _ := set("deploy/kubernetes/file.yaml")
	postgres, migrates := set("deploy/kubernetes/postgres.yaml")
	image := regexp.MustCompile(`(?m)^ENV (\S+)$`).FindAllStringSubmatch(readFile(t, "Dockerfile"), -1)
	for form, environ := range map[string][]string{"one file": one, "Postgres and Redis": postgres, "the job": migrates} {
		for _, e := range image {
			environ = append([]string{e[1]}, environ...)
		}
		cfg, err := config.Load(environ, read)
		if err != nil || len(cfg.Warnings) > 0 && form != "the job" || (cfg.DatabaseURL == "") != (form == "one file") {
			t.Errorf("%s: %v, warnings %q", form, err, cfg.Warnings)
		}
	}
}

func TestComposeKeepsItsData(t *testing.T) {
	one := readCompose(t, "compose.yaml")
	if _, declared := one.Volumes["data"]; !declared || !slices.Contains(one.Services["sendcode"].Volumes, "data:/data") ||
		!strings.Contains(readFile(t, "Dockerfile"), "\nENV SENDCODE_DATA_DIR=/data\n") {
		t.Error("the SQLite file is in no volume")
	}
	c := readCompose(t, "compose.postgres.yaml")
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
