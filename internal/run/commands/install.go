package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sendcode"
	"sendcode/internal/run/config"
)

// Installation has the answers to the questions of `sendcode init`. Flags and environment variables
// can give them, too.
type Installation struct {
	Origin   string `env:"SENDCODE_ORIGINS" placeholder:"ORIGIN" help:"The origin of the page that people see, such as https://codes.example. With --show=widget it is the origin of your own page."`
	MailFrom string `env:"SENDCODE_MAIL_FROM" placeholder:"SENDER" help:"The sender of mails, such as 'Shop <no-reply@shop.example>'."`
	SMTPURL  string `name:"smtp-url" env:"SENDCODE_SMTP_URL" placeholder:"URL" help:"The mail server, such as smtp://user:password@mail.example:587 or resend://:key@api.resend.com."`
	Tenant   string `name:"oauth-tenant" placeholder:"TENANT" help:"The tenant of Microsoft 365, if the URL of the mail server contains oauth=NAME."`
	ClientID string `name:"oauth-client-id" placeholder:"ID" help:"The client ID of your application at Microsoft 365."`
	Secret   string `name:"oauth-secret" env:"OAUTH_CLIENT_SECRET" placeholder:"SECRET" help:"The client secret of your application at Microsoft 365."`
	Account  string `name:"oauth-account" type:"path" placeholder:"FILE" help:"For Google, the JSON file of the service account. The systemd unit loads it from there, so keep it."`
	Show     string `default:"page" placeholder:"page" help:"page: people use the page of this service. widget: people use the widget in a page of yours."`
	Public   string `name:"public-url" env:"SENDCODE_PUBLIC_URL" placeholder:"URL" help:"With --show=widget, the URL at which browsers reach this service, such as https://codes.example."`
	Where    string `default:"systemd" placeholder:"systemd" help:"systemd: write systemd units, and the settings to /etc/sendcode. compose: write a compose file and the settings to this folder."`
	Yes      bool   `help:"Ask nothing, and take the answers from flags and variables."`
	Root     string `hidden:"" help:"The folder that stands for / with systemd, and for this folder with compose."`
}

// oauthName matches the name of an OAuth client in the mail server's URL.
var oauthName = regexp.MustCompile(`[?&]oauth=([^&,]+)`)

// oauthSecret is the variable that holds the client's secret.
const oauthSecret = "OAUTH_CLIENT_SECRET"

// googleHost matches a URL with a mail server of Google.
var googleHost = regexp.MustCompile(`@smtp(-relay)?\.gmail\.com[:/?]`)

func (i *Installation) hasOAuth() bool  { return oauthName.MatchString(i.SMTPURL) }
func (i *Installation) atGoogle() bool  { return i.hasOAuth() && googleHost.MatchString(i.SMTPURL) }
func (i *Installation) hasTenant() bool { return i.hasOAuth() && !i.atGoogle() }
func (i *Installation) hasWidget() bool { return i.Show == "widget" }

// accountPath returns where the service finds the service account's file.
func (i *Installation) accountPath() string {
	if i.Where == "compose" {
		return "/run/secrets/google_json"
	}
	return "/run/credentials/sendcode.service/google.json"
}

// composeOAuth adds the OAuth client's secret to compose.yaml. composeGoogle adds a copy of the
// service account's file.
const (
	composeOAuth = `services: {sendcode: {environment: {OAUTH_CLIENT_SECRET_FILE: /run/secrets/oauth_client_secret}, secrets: [oauth_client_secret]}}
secrets: {oauth_client_secret: {file: ./secrets/oauth_client_secret}}
`
	composeGoogle = `services: {sendcode: {secrets: [google_json]}}
secrets: {google_json: {file: ./secrets/google_json}}
`
)

// ask asks the questions in turn, and skips those that earlier answers make unnecessary. If the
// person enters an empty line, the present answer stays.
func (i *Installation) ask(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for _, q := range []struct {
		text   string
		answer *string
		open   func() bool // nil: always
	}{
		{"Origin of the page that people see, such as https://codes.example", &i.Origin, nil},
		{"Sender, such as Shop <no-reply@shop.example>", &i.MailFrom, nil},
		{
			"Mail server, such as smtp://user:password@mail.example:587, or with a token smtp://user@smtp.office365.com:587?oauth=m365",
			&i.SMTPURL, nil,
		},
		{"Tenant of Microsoft 365", &i.Tenant, i.hasTenant},
		{"Client ID of your application there", &i.ClientID, i.hasTenant},
		{"Client secret of your application there", &i.Secret, i.hasTenant},
		{"JSON file of Google's service account", &i.Account, i.atGoogle},
		{"What people use: page (ours) or widget (in a page of yours)", &i.Show, nil},
		{"Where browsers reach this service, such as https://codes.example", &i.Public, i.hasWidget},
		{"What runs the service: systemd or compose", &i.Where, nil},
	} {
		if q.open != nil && !q.open() {
			continue
		}
		_, _ = fmt.Fprintf(out, "%s [%s]: ", q.text, *q.answer)
		line, err := lines.ReadString('\n')
		line = strings.TrimSpace(line)
		if line != "" {
			*q.answer = line
		} else if err != nil {
			return fmt.Errorf("can't read the answer (%w): init --yes runs without questions", err)
		}
	}
	return nil
}

type fileToWrite struct {
	name, content string
	mode          os.FileMode
}

// Install writes the files of a service on SQLite: settings, new secrets, and either the systemd
// units or the compose file. If i.Yes is false, it first asks the questions. If an answer has a
// mistake or a file exists, Install returns an error and writes nothing.
func Install(i Installation, in io.Reader, out io.Writer) error {
	if !i.Yes {
		if err := i.ask(in, out); err != nil {
			return err
		}
	}
	if i.Origin == "" || i.MailFrom == "" || i.SMTPURL == "" {
		return errors.New("init needs an origin (--origin), a sender (--mail-from) and a mail server (--smtp-url or SENDCODE_SMTP_URL)")
	}
	if i.atGoogle() {
		var err error
		if i.Account, err = filepath.Abs(i.Account); err != nil {
			return err
		}
	}
	settings, public, err := i.settings()
	if err != nil {
		return err
	}
	secrets := []string{"SENDCODE_SMTP_URL=" + i.SMTPURL}
	if i.hasTenant() {
		secrets = append(secrets, oauthSecret+"="+i.Secret)
	}
	for line := range strings.Lines(config.GenerateSecretVariables()) {
		if !strings.HasPrefix(line, "SENDCODE_PUBLIC_KEY=") {
			secrets = append(secrets, strings.TrimSpace(line))
		}
	}
	flow := "{" + strings.Join(settings, ", ") + "}"
	read := func(path string) ([]byte, error) {
		if path == i.accountPath() {
			path = i.Account
		}
		return os.ReadFile(path)
	}
	if _, err := config.Load(append(slices.Clone(secrets), "SENDCODE_CONFIG_YAML="+flow), read); err != nil {
		return err
	}
	if i.atGoogle() { // Load accepts that a credential of systemd is missing
		if _, err := os.ReadFile(i.Account); err != nil {
			return fmt.Errorf("service_account_file: %w", err)
		}
	}
	if strings.ContainsAny(i.MailFrom+i.SMTPURL+i.Origin+i.Public+i.Tenant+i.ClientID+i.Secret+i.Account, "'\n\\$") {
		return errors.New("an answer has ', \\ or $, which shells and compose interpret: write %XX in URLs, and leave it out of names")
	}
	var files []fileToWrite
	var next string // commands, a line each
	switch i.Where {
	case "compose":
		files, next = i.composeFiles(flow, secrets),
			"docker image inspect --format found sendcode:local   # if it is not found: docker build --tag sendcode:local . in the folder of the archive\n"+
				"docker compose up --detach\n# and each day:\ndocker compose exec -T sendcode /sendcode backup - > new.tar && mv new.tar sendcode.tar"
	case "systemd":
		files, next = i.systemdFiles(settings, secrets), installProgram()+
			"systemctl daemon-reload && systemctl enable --now sendcode.socket sendcode sendcode-backup.timer"
		i.Root = filepath.Join("/", i.Root)
	default:
		return fmt.Errorf("%q must be systemd or compose", i.Where)
	}
	if err := createFiles(i.Root, files); err != nil {
		return err
	}
	for _, f := range files {
		_, _ = fmt.Fprintln(out, "wrote", filepath.Join(i.Root, f.name))
	}
	_, err = fmt.Fprintf(out, "Only these files have the new secrets, with the API key and the password of the console at http://127.0.0.1:8081/admin: keep a copy. Put a proxy with TLS in front (docs/operations.md), then run:\n\n%s\n%s", next, public)
	return err
}

// installProgram returns a command that copies this program to where systemd's units start it, or
// "" if it is there already.
func installProgram() string {
	const place = "/usr/local/bin/sendcode"
	program, err := os.Executable()
	if err != nil || program == place {
		return ""
	}
	return "install -m 755 '" + strings.ReplaceAll(program, "'", `'\''`) + "' " + place + "\n"
}

// settings returns the lines of the settings, and the HTML for the administrator's own page. The
// HTML is "" if people use the service's page.
func (i Installation) settings() (lines []string, public string, err error) {
	lines = []string{fmt.Sprintf("mail_from: %q", i.MailFrom)}
	found := oauthName.FindStringSubmatch(i.SMTPURL)
	switch {
	case i.atGoogle():
		server, err := url.Parse(i.SMTPURL)
		if err != nil {
			return nil, "", errors.New("SENDCODE_SMTP_URL is not a URL")
		}
		lines = append(lines, fmt.Sprintf("oauth: {%s: {service_account_file: %s, subject: %q}}", found[1], i.accountPath(),
			server.User.Username()))
	case found != nil:
		lines = append(lines, fmt.Sprintf("oauth: {%s: {tenant: %q, client_id: %q, client_secret_env: %s}}", found[1], i.Tenant, i.ClientID,
			oauthSecret))
	}
	switch i.Show {
	case "page":
		return append(lines, "page: {app: default}", fmt.Sprintf("public_url: %q", i.Origin)), "", nil
	case "widget":
		key, sum := config.NewAPIKey("public")
		where, base := "", strings.TrimSuffix(i.Public, "/")
		if i.Public != "" {
			lines = append(lines, fmt.Sprintf("public_url: %q", i.Public))
		} else {
			where, base = ", with the service's name in place of codes.example", "https://codes.example"
		}
		public = fmt.Sprintf("\nYour page%s:\n\n  <script type=\"module\" src=\"%s/widget.js\"></script>\n  <send-code public-key=%q></send-code>\n", where, base, key)
		return append(lines, fmt.Sprintf(
			"apps: [{name: default, origins: [%q], keys: [{id: k_%s, kind: public, sha256: %q}]}]", i.Origin, sum[:8], sum)), public, nil
	default:
		return nil, "", fmt.Errorf("%q must be page or widget", i.Show)
	}
}

// composeFiles returns the compose file, the file .env with the settings, and a file for each
// secret. flow has the settings as one YAML flow mapping.
func (i Installation) composeFiles(flow string, secrets []string) []fileToWrite {
	files := []fileToWrite{
		{"compose.yaml", sendcode.Compose, 0o644},
		{".env", "SENDCODE_MAIL_FROM='" + i.MailFrom + "'\nSENDCODE_CONFIG_YAML='" + flow + "'\n", 0o600},
	}
	switch {
	case i.atGoogle():
		account, _ := os.ReadFile(i.Account) // Load has read it
		files = append(files, fileToWrite{"compose.override.yaml", composeGoogle, 0o644},
			fileToWrite{"secrets/google_json", string(account), 0o644})
	case i.hasOAuth():
		files = append(files, fileToWrite{"compose.override.yaml", composeOAuth, 0o644})
	}
	for _, line := range secrets {
		name, value, _ := strings.Cut(line, "=")
		// Compose mounts the file with its permissions, and the container runs as a different user,
		// so all users may read the file. The permissions of the folder keep other users of the
		// machine out.
		files = append(files, fileToWrite{"secrets/" + strings.ToLower(strings.TrimPrefix(name, "SENDCODE_")), value + "\n", 0o644})
	}
	return files
}

func (i Installation) systemdFiles(settings, secrets []string) []fileToWrite {
	settings = append(settings, "addr: 127.0.0.1:8080", "admin_addr: 127.0.0.1:8081", `trusted_proxies: [127.0.0.1, "::1"]`)
	env := "SENDCODE_CONFIG=/etc/sendcode/sendcode.yaml\nSENDCODE_DATA_DIR=/var/lib/sendcode\n"
	for _, line := range secrets {
		name, value, _ := strings.Cut(line, "=")
		env += name + "='" + value + "'\n"
	}
	files := []fileToWrite{
		{"etc/sendcode/sendcode.yaml", strings.Join(settings, "\n") + "\n", 0o644},
		{"etc/sendcode/env", env, 0o600},
		{"etc/systemd/system/sendcode.service", sendcode.Service, 0o644},
		{"etc/systemd/system/sendcode.socket", sendcode.Socket, 0o644},
		{"etc/systemd/system/sendcode-backup.service", sendcode.Backup, 0o644},
		{"etc/systemd/system/sendcode-backup.timer", sendcode.BackupTimer, 0o644},
	}
	if i.atGoogle() { // the service runs as another user, which can't read the file
		files = append(files, fileToWrite{
			"etc/systemd/system/sendcode.service.d/google.conf",
			"[Service]\nLoadCredential=google.json:" + i.Account + "\n", 0o644,
		})
	}
	return files
}

// createFiles writes files below root. If one of them exists, it writes none.
func createFiles(root string, files []fileToWrite) error {
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(root, f.name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists already, so nothing was written: move it away", filepath.Join(root, f.name))
		}
	}
	for _, f := range files {
		path := filepath.Join(root, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		// This sets the mode with any umask, and also for a folder that existed before.
		if mode := map[string]os.FileMode{"secrets": 0o700, "etc/sendcode": 0o755}[filepath.Dir(f.name)]; mode != 0 {
			if err := os.Chmod(filepath.Dir(path), mode); err != nil {
				return err
			}
		}
		if err := config.WriteFile(path, func(w *os.File) error {
			_, err := w.WriteString(f.content)
			return errors.Join(err, w.Chmod(f.mode))
		}); err != nil {
			return err
		}
	}
	return nil
}
