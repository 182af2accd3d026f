package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Exact versions, so that a check finds tomorrow what it finds today, but for what is new in the database.
const (
	govulncheck = "golang.org/x/vuln/cmd/govulncheck@v1.8.0"
	redocly     = "@redocly/cli@2.77.0"
	generator   = "openapi-typescript@7.13.0"
	compiler    = "typescript@5.9.3"
)

const specification = "docs/openapi.yaml"

// world is what the checks need of this machine.
type world struct {
	out    io.Writer
	client *http.Client
	run    func(ctx context.Context, dir string, command ...string) (output string, err error)
}

// errSkip is why a check cannot be made here.
type errSkip string

func (e errSkip) Error() string { return string(e) }

// checks makes all of them, and reports whether none found anything.
func (w world) checks(ctx context.Context) bool {
	good := true
	for _, c := range []struct {
		name string
		make func(context.Context) error
	}{{"govulncheck", w.vulnerabilities}, {"redocly", w.redocly}, {"openapi-typescript", w.typescript}} {
		err := c.make(ctx)
		if skip := errSkip(""); errors.As(err, &skip) {
			fmt.Fprintf(w.out, "%s: skipped: %s\n", c.name, skip)
		} else if err != nil {
			fmt.Fprintf(w.out, "%s: %v\n", c.name, err)
			good = false
		}
	}
	return good
}

// vulnerabilities asks the database first: without it govulncheck fails as it does with a finding.
func (w world) vulnerabilities(ctx context.Context) error {
	database := cmp.Or(os.Getenv("GOVULNDB"), "https://vuln.go.dev")
	if strings.HasPrefix(database, "http") && !w.reaches(ctx, strings.TrimSuffix(database, "/")+"/index/db.json") {
		return errSkip("its database at " + database + " cannot be reached")
	}
	if _, err := w.run(ctx, ".", "go", "run", govulncheck, "-version"); err != nil {
		return errSkip(govulncheck + " cannot be had")
	}
	return w.must(ctx, ".", "go", "run", govulncheck, "./...")
}

func (w world) reaches(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := w.client.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func (w world) redocly(ctx context.Context) error {
	if err := w.has(ctx, redocly, "redocly"); err != nil {
		return err
	}
	return w.must(ctx, ".", npx(redocly, "redocly", "lint", "--extends=recommended-strict", "--skip-rule=info-license",
		"--skip-rule=operation-4xx-response", specification)...)
}

// typescript has a caller compiled against what is generated.
func (w world) typescript(ctx context.Context) error {
	for _, p := range [][2]string{{generator, "openapi-typescript"}, {compiler, "tsc"}} {
		if err := w.has(ctx, p[0], p[1]); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "sendcode-openapi-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := w.must(ctx, ".", npx(generator, "openapi-typescript", specification, "-o", filepath.Join(dir, "api.ts"))...); err != nil {
		return err
	}
	caller, err := os.ReadFile("tools/outside/testdata/caller.ts")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "caller.ts"), caller, 0o600); err != nil {
		return err
	}
	return w.must(ctx, dir, npx(compiler, "tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution",
		"bundler", "caller.ts")...)
}

func npx(pkg, program string, args ...string) []string {
	return append([]string{"npx", "--yes", "--package=" + pkg, "--", program}, args...)
}

// has fetches a package into npm's cache.
func (w world) has(ctx context.Context, pkg, program string) error {
	if _, err := exec.LookPath("npx"); err != nil {
		return errSkip("npm is not installed")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if _, err := w.run(ctx, ".", npx(pkg, program, "--version")...); err != nil {
		return errSkip(pkg + " cannot be had")
	}
	return nil
}

func (w world) must(ctx context.Context, dir string, command ...string) error {
	output, err := w.run(ctx, dir, command...)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(output))
	}
	return nil
}

// run tells the programs to report nothing of it.
func run(ctx context.Context, dir string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "npm_config_update_notifier=false",
		"NO_COLOR=1",
		"npm_config_fetch_retries=0", "npm_config_fetch_timeout=20000") // milliseconds: where npm cannot be reached, lint does not wait for it
	out, err := cmd.CombinedOutput()
	return string(out), err
}
