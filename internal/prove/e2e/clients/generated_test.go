//go:build nightly

// Only `make nightly` runs these tests, since they need generators from npm and the Go module
// proxy.

package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sendcode/docs"
	"sendcode/internal/run/app/apptest"
)

// generated are the clients that generators make from docs/openapi.yaml. Their commands generate,
// compile and run a client in a folder with the document and testdata/generated. Generators and
// modules are kept in the caches of go and npm.
var generated = map[string]struct {
	fetch, build [][]string
	run          []string
}{
	"go": {
		fetch: [][]string{
			{"go", "run", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2", "-version"},
			{"go", "mod", "init", "example.com/client"},
			{"go", "get", "github.com/oapi-codegen/runtime@v1.8.0"},
		},
		build: [][]string{
			{
				"go", "run", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2", "-generate", "types,client",
				"-package", "main", "-o", "client.go", "openapi.yaml",
			},
			{"go", "build", "-o", "client", "."},
		},
		run: []string{"./client"},
	},
	"typescript": {
		fetch: [][]string{
			{"npx", "--yes", "--package=openapi-typescript@7.13.0", "--", "openapi-typescript", "--version"},
			{"npx", "--yes", "--package=typescript@5.9.3", "--", "tsc", "--version"},
			{"node", "--version"},
		},
		build: [][]string{
			{"npx", "--yes", "--package=openapi-typescript@7.13.0", "--", "openapi-typescript", "openapi.yaml", "-o", "api.ts"},
			{
				"npx", "--yes", "--package=typescript@5.9.3", "--", "tsc", "--strict", "--target", "es2022", "--module", "esnext",
				"--moduleResolution", "bundler", "caller.ts",
			},
			{"mv", "caller.js", "caller.mjs"},
		},
		run: []string{"node", "caller.mjs"},
	},
}

// A back end with a generated client sends a code, learns from a refusal how long to wait, and
// checks a wrong code and the right one. If a generator can't be installed, the test is skipped,
// and in CI it fails.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	s.Start(1)
	for language, g := range generated {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			apptest.Must(t, os.CopyFS(dir, os.DirFS("testdata/generated")))
			apptest.Must(t, os.WriteFile(filepath.Join(dir, "openapi.yaml"), docs.OpenAPI, 0o600))
			do := func(command []string) ([]byte, error) {
				c := exec.CommandContext(t.Context(), command[0], command[1:]...)
				c.Dir = dir
				c.Env = append(os.Environ(), "CODES_URL="+s.Replicas[0].Base, "CODES_KEY="+s.Key,
					"GOFLAGS=-mod=mod -trimpath", "GOWORK=off",
					"npm_config_update_notifier=false", "npm_config_fetch_retries=0")
				return c.CombinedOutput()
			}
			for _, command := range g.fetch {
				if said, err := do(command); err != nil && os.Getenv("CI") == "" {
					t.Skipf("%v cannot be had: %v: %s", command, err, said)
				} else if err != nil {
					t.Fatalf("%v cannot be had: %v: %s", command, err, said)
				}
			}
			for _, command := range g.build {
				if said, err := do(command); err != nil {
					t.Fatalf("%v: %v: %s", command, err, said)
				}
			}
			call := func(arguments ...string) (answer struct {
				ID, Status, Proof string
				Valid             bool
				RetryAfter        int    `json:"retry_after"`
				BlockedBy         string `json:"blocked_by"`
				Left              int    `json:"attempts_remaining"`
			},
			) {
				t.Helper()
				out, err := do(append(g.run, arguments...))
				if err == nil {
					err = json.Unmarshal(out, &answer)
				}
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return answer
			}
			to := "ana." + language + "@example.com"
			sent := call("send", to)
			if sent.Status != "pending" || sent.ID == "" {
				t.Fatalf("%+v", sent)
			}
			if early := call("send", to); early.RetryAfter < 1 || early.RetryAfter > 60 || early.BlockedBy != "minute" {
				t.Errorf("too early: %+v", early)
			}
			code := s.CodeIn(s.AwaitMail(to, 1)[0])
			if got := call("check", sent.ID, s.Wrong(code)); got.Valid || got.Status != "pending" || got.Left != 4 {
				t.Errorf("a wrong code: %+v", got)
			}
			if got := call("check", sent.ID, code); !got.Valid || got.Status != "approved" || got.Proof == "" {
				t.Errorf("the code: %+v", got)
			}
		})
	}
}
