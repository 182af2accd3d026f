package commands_test

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery/oauth/oauthtest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
)

// written returns the files below a folder, by their path in the folder.
func written(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	apptest.Must(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, failed := os.ReadFile(path)
			files[strings.TrimPrefix(path, root+"/")], err = string(text), failed
		}
		return err
	}))
	return files
}

// The settings that init writes can be loaded without a warning, and only their owner can read the
// secrets. A second run changes nothing.
func TestInstall(t *testing.T) {
	t.Parallel()
	answers := "https://codes.example\nShop <no-reply@shop.example>\nsmtp://u:p@mail.example:587\n"
	for _, show := range []string{"page", "widget"} {
		root := t.TempDir()
		apptest.Must(t, os.MkdirAll(filepath.Join(root, "etc/sendcode"), 0o700)) // as with a strict umask
		var out strings.Builder
		apptest.Must(t, commands.Install(commands.Installation{Show: "page", Where: "systemd", Root: root},
			strings.NewReader(answers+show+"\n"+map[string]string{"widget": "https://codes.shop.example\n"}[show]+"\n"), &out))
		files := written(t, root)
		names := []string{
			"etc/sendcode/env", "etc/sendcode/sendcode.yaml", "etc/systemd/system/sendcode-backup.service",
			"etc/systemd/system/sendcode-backup.timer", "etc/systemd/system/sendcode.service", "etc/systemd/system/sendcode.socket",
		}
		if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, names) ||
			strings.Contains(out.String(), `src="https://codes.shop.example/widget.js"`) != (show == "widget") {
			t.Errorf("%q, %s", got, out.String())
		}
		for name, mode := range map[string]os.FileMode{names[0]: 0o600, "etc/sendcode": 0o755} { // the service's user reads the folder
			if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v %v", name, info, err)
			}
		}
		cfg, err := config.Load(strings.Split(strings.TrimSpace(strings.ReplaceAll(files[names[0]], "'", "")), "\n"),
			func(string) ([]byte, error) { return []byte(files[names[1]]), nil })
		if err != nil || len(cfg.Warnings) > 0 || !cfg.AdminToken.IsSet() || cfg.Page.App == "" && show == "page" {
			t.Errorf("%s: %v %q", show, err, cfg.Warnings)
		}
		apptest.Must(t, os.Remove(filepath.Join(root, names[0])))
		delete(files, names[0])
		err = commands.Install(commands.Installation{
			Show: show, Where: "systemd", Root: root, Yes: true, Origin: "https://codes.example",
			MailFrom: "a@shop.example", SMTPURL: "smtp://mail.example",
		}, nil, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "sendcode.yaml exists already") || !maps.Equal(written(t, root), files) {
			t.Errorf("over files: %v", err)
		}
	}
}

// With oauth in the mail server's URL, init asks for the client at Microsoft. The settings name the
// variable of the client's secret, and only one file has the secret. For systemd and for compose,
// init mentions the backup.
func TestInstallOAuth(t *testing.T) {
	t.Parallel()
	backup := map[string]string{
		"systemd": "sendcode-backup.timer\n",
		"compose": "\ndocker compose exec -T sendcode /sendcode backup - > new.tar && mv new.tar sendcode.tar\n",
	}
	for where, secretIn := range map[string]string{"systemd": "etc/sendcode/env", "compose": "secrets/oauth_client_secret"} {
		root := t.TempDir()
		var out strings.Builder
		apptest.Must(t, commands.Install(commands.Installation{Show: "page", Root: root},
			strings.NewReader("https://codes.example\nShop <codes@shop.example>\n"+
				"smtp://codes%40shop.example@smtp.office365.com:587?oauth=m365\nshop.onmicrosoft.com\nclient\n"+oauthtest.Secret+"\n\n"+
				where+"\n"), &out))
		files := written(t, root)
		if settings := files["etc/sendcode/sendcode.yaml"] + files[".env"]; !strings.Contains(settings,
			`oauth: {m365: {tenant: "shop.onmicrosoft.com", client_id: "client", client_secret_env: OAUTH_CLIENT_SECRET}}`) {
			t.Error(settings)
		}
		if !strings.Contains(out.String(), backup[where]) {
			t.Errorf("%s: init names no backup: %s", where, out.String())
		}
		for name, text := range files {
			if strings.Contains(text, oauthtest.Secret) != (name == secretIn) || strings.Contains(out.String(), oauthtest.Secret) {
				t.Errorf("%s: %s has the secret, or lacks it: %s", where, name, out.String())
			}
		}
		if where == "compose" && !strings.Contains(files["compose.override.yaml"],
			"OAUTH_CLIENT_SECRET_FILE: /run/secrets/oauth_client_secret") {
			t.Errorf("%q", files["compose.override.yaml"])
		}
	}
}

// With a mail server of Google, init asks for the file of the service account, and gives its path
// to the service. Only compose gets a copy of the file, since its container has another user.
func TestInstallGoogle(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "google key.json")
	install := func(where, key string) (files map[string]string, err error) {
		root := t.TempDir()
		err = commands.Install(commands.Installation{Show: "page", Root: root},
			strings.NewReader("https://codes.example\nShop <codes@shop.example>\n"+
				"smtp://codes%40shop.example@smtp.gmail.com:587?oauth=google\n"+key+"\n\n"+where+"\n"), io.Discard)
		return written(t, root), err
	}
	if _, err := install("systemd", key); err == nil || !strings.Contains(err.Error(), "service_account_file") {
		t.Errorf("without the file: %v", err)
	}
	apptest.Must(t, os.WriteFile(key, []byte(oauthtest.Account("https://oauth2.googleapis.com/token")), 0o600))
	for where, want := range map[string]map[string]string{
		"systemd": {
			"etc/sendcode/sendcode.yaml":                        `oauth: {google: {service_account_file: /run/credentials/sendcode.service/google.json, subject: "codes@shop.example"}}`,
			"etc/systemd/system/sendcode.service.d/google.conf": "LoadCredential=google.json:" + key + "\n",
		},
		"compose": {
			".env":                  `oauth: {google: {service_account_file: /run/secrets/google_json, subject: "codes@shop.example"}}`,
			"compose.override.yaml": "secrets: {google_json: {file: ./secrets/google_json}}", "secrets/google_json": "PRIVATE KEY",
		},
	} {
		files, err := install(where, key)
		apptest.Must(t, err)
		for name, part := range want {
			if !strings.Contains(files[name], part) {
				t.Errorf("%s: %s is %q", where, name, files[name])
			}
		}
		if all := strings.Join(slices.Collect(maps.Values(files)), ""); strings.Contains(all, "PRIVATE KEY") != (where == "compose") ||
			strings.Contains(all, "OAUTH_CLIENT_SECRET") {
			t.Errorf("%s: has a key, or lacks one", where)
		}
	}
}

func TestInstallCompose(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	good := commands.Installation{
		Yes: true, Show: "page", Where: "compose", Root: root, Origin: "https://codes.example",
		MailFrom: "Shop <no-reply@shop.example>", SMTPURL: "smtp://u:p@mail.example:587",
	}
	for want, change := range map[string]func(*commands.Installation){
		"must be page or widget":     func(i *commands.Installation) { i.Show = "both" },
		"must be systemd or compose": func(i *commands.Installation) { i.Where = "cloud" },
		"needs an origin":            func(i *commands.Installation) { i.Origin = "" },
		"--origin), a sender":        func(i *commands.Installation) { i.MailFrom = "" },
		"and a mail server":          func(i *commands.Installation) { i.SMTPURL = "" },
		"mail_from":                  func(i *commands.Installation) { i.MailFrom = "Shop" },
		"SENDCODE_SMTP_URL":          func(i *commands.Installation) { i.SMTPURL = "mail.example" },
		"an answer has ', \\ or $":   func(i *commands.Installation) { i.MailFrom = "Shop's <no-reply@shop.example>" },
	} {
		bad := good
		change(&bad)
		if err := commands.Install(bad, nil, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if files := written(t, root); len(files) > 0 {
		t.Errorf("written: %v", files)
	}
	if err := commands.Install(commands.Installation{}, strings.NewReader("https://codes.example\n"), io.Discard); err == nil ||
		!strings.Contains(err.Error(), "init --yes runs without questions") {
		t.Error(err)
	}
	apptest.Must(t, os.Mkdir(filepath.Join(root, "secrets"), 0o755)) // the administrator has made the folder before
	apptest.Must(t, commands.Install(good, nil, io.Discard))
	want := []string{
		".env", "compose.yaml", "secrets/admin_password", "secrets/admin_token", "secrets/api_key", "secrets/index_key",
		"secrets/secret_keys", "secrets/smtp_url",
	}
	if got := slices.Sorted(maps.Keys(written(t, root))); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(filepath.Join(root, "secrets")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("secrets: %v %v", info, err)
	}
}
