package app

import (
	"io"
	"os"
	"testing"
	"time"

	"sendcode/internal/config"
)

// A command that makes the database makes its keys too, or the service would find a database whose
// keys are lost.
func TestTheServiceStartsAfterACommandThatMadeTheDatabase(t *testing.T) {
	cfg, err := config.Load([]string{"SENDCODE_DATA_DIR=" + t.TempDir()}, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	add := AccountChange{Do: "add", Name: "mei", Role: "operator", Reason: "on call"}
	if err := ChangeAccount(t.Context(), cfg, add, io.Discard); err != nil {
		t.Fatal(err)
	}
	given := cfg // as in a shell that does not have the service's keys: accounts need none
	if err := ChangeAccount(t.Context(), given, AccountChange{Do: "list"}, io.Discard); err != nil {
		t.Error(err)
	}
	a := newApp(cfg, nil, time.Now)
	if err := a.fillSecrets(); err != nil {
		t.Error(err)
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
}
