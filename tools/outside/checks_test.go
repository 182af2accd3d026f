package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fake is a machine on which commands that contain one of the texts fail.
func fake(t *testing.T, failing ...string) (w world, said *strings.Builder, ran *[]string) {
	t.Helper()
	t.Chdir("../..")
	database := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(database.Close)
	t.Setenv("GOVULNDB", database.URL)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "npx"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	said, ran = &strings.Builder{}, &[]string{}
	return world{out: said, client: database.Client(), run: func(_ context.Context, _ string, command ...string) (string, error) {
		line := strings.Join(command, " ")
		*ran = append(*ran, line)
		for _, f := range failing {
			if strings.Contains(line, f) {
				return "what it found", errors.New("exit status 3")
			}
		}
		return "", nil
	}}, said, ran
}

func TestAFindingFails(t *testing.T) {
	for name, command := range map[string]string{"govulncheck": "./...", "redocly": "redocly lint", "openapi-typescript": "tsc --noEmit"} {
		t.Run(name, func(t *testing.T) {
			w, said, _ := fake(t, command)
			if w.checks(t.Context()) || said.String() != name+": exit status 3\nwhat it found\n" {
				t.Errorf("says %q", said)
			}
		})
	}
}

func TestWithoutNetworkAndNpm(t *testing.T) {
	w, said, ran := fake(t)
	t.Setenv("GOVULNDB", "http://127.0.0.1:1")
	t.Setenv("PATH", t.TempDir())
	if !w.checks(t.Context()) || len(*ran) > 0 || said.String() != "govulncheck: skipped: its database at http://127.0.0.1:1 cannot be "+
		"reached\n"+
		"redocly: skipped: npm is not installed\nopenapi-typescript: skipped: npm is not installed\n" {
		t.Errorf("says %q, ran %q", said, *ran)
	}
}
