package house

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// No container has a right that it does not need: its program can write only its data, gains no
// rights, and has bounds. Only this machine reaches the console and the metrics; only the service
// reaches Redis and Postgres. No file contains a secret.
func TestComposeContainersAreConfined(t *testing.T) {
	for _, file := range composeFiles {
		t.Run(file, func(t *testing.T) { areConfined(t, readCompose(t, file)) })
	}
}

func areConfined(t *testing.T, c compose) {
	t.Helper()
	secret := regexp.MustCompile(`PASSWORD|KEY|TOKEN|[^C]_URL|SECRET`)
	for name, s := range c.Services {
		for what, holds := range map[string]bool{
			"read_only":              s.ReadOnly,
			"drops all capabilities": slices.Equal(s.CapDrop, []string{"ALL"}) && len(s.CapAdd) == 0,
			"gains no rights":        slices.Contains(s.SecurityOpt, "no-new-privileges:true") && !s.Privileged,
			"bounded":                s.MemLimit != "" && s.PidsLimit > 0,
			"not root":               s.Build != "" || notRoot.MatchString(s.User),
			"in a network of its own": s.NetworkMode == "" &&
				(name == "sendcode" || slices.Equal(s.Networks, []string{"inner"})),
			"published by sendcode alone": name == "sendcode" || len(s.Ports) == 0,
			// Every user of the machine can list arguments.
			"without a password as argument": !strings.Contains(strings.Join(slices.Concat(s.Command, s.Entrypoint),
				" "), "PASSWORD"),
		} {
			if !holds {
				t.Errorf("%s: not %s: %+v", name, what, s)
			}
		}
		for _, v := range s.Volumes {
			if source, _, _ := strings.Cut(v, ":"); strings.HasPrefix(source, ".") && !strings.HasSuffix(v, ":ro") ||
				strings.Contains(v, "docker.sock") {
				t.Errorf("%s: can write to %s", name, v)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond this machine", name, p)
			}
		}
		for variable, value := range s.Environment {
			if secret.MatchString(variable) && (!strings.HasSuffix(variable, "_FILE") || !strings.HasPrefix(value, "/run/secrets/")) {
				t.Errorf("%s: %s is %q: a secret that is in the environment", name, variable, value)
			}
		}
	}
	env := c.Services["sendcode"].Environment
	_, public, _ := net.SplitHostPort(env["SENDCODE_ADDR"])
	_, admin, err := net.SplitHostPort(env["SENDCODE_ADMIN_ADDR"])
	if err != nil || admin == public {
		t.Errorf("the console is not apart: %q and %q", env["SENDCODE_ADDR"], env["SENDCODE_ADMIN_ADDR"])
	}
	if len(c.Services) == 1 {
		return
	}
	if !c.Networks["inner"].Internal {
		t.Error("the network of Redis and Postgres leads outside")
	}
	if env["SENDCODE_DATABASE_ROLE"] != "sendcode_app" || env["SENDCODE_DATABASE_URL_FILE"] != "/run/secrets/database_url" {
		t.Errorf("the service is not the role sendcode_app: %v", env)
	}
}

var (
	notRoot = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`)
	// exactTag matches a version with all its numbers and, if there is one, a digest.
	exactTag = regexp.MustCompile(`:\d+\.\d+(\.\d+)?-[a-z]+(@sha256:[0-9a-f]{64})?$`)
)

// Postgres has versions of two numbers, Redis and Go of three.
func TestImagesAreExact(t *testing.T) {
	images := namesOf(regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`), readFile(t, "Dockerfile"))
	images = slices.DeleteFunc(images, func(image string) bool { return image == "scratch" })
	for _, s := range readCompose(t, "compose.postgres.yaml").Services {
		if s.Build == "" {
			images = append(images, s.Image)
		}
	}
	if len(images) < 3 {
		t.Errorf("found the images %q alone", images)
	}
	for _, image := range images {
		if version := exactTag.FindString(image); version == "" || !strings.HasPrefix(image, "postgres:") &&
			strings.Count(version, ".") < 2 {
			t.Errorf("%s names no exact version", image)
		}
	}
}

// The last stage contains nothing but the program: it has no shell, and doesn't run as root.
func TestDockerfileLastStage(t *testing.T) {
	text := readFile(t, "Dockerfile")
	_, last, found := strings.Cut(text, "\nFROM scratch\n")
	if !found {
		t.Fatal("the last stage is not scratch")
	}
	user := regexp.MustCompile(`(?m)^USER (.*)$`).FindStringSubmatch(last)
	if user == nil || !notRoot.MatchString(user[1]) {
		t.Errorf("user %q", user)
	}
	if strings.Contains(last, "ADD ") || strings.Contains(last, "COPY . ") {
		t.Error("the last stage has more than the program")
	}
	for _, name := range []string{".env", "/secrets/", ".git/", "/data/"} {
		if !slices.Contains(strings.Split(readFile(t, ".dockerignore"), "\n"), name) {
			t.Errorf("%s goes into the build: .dockerignore does not name it", name)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
