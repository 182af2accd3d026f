package config_test

import (
	"io/fs"
	"testing"

	"sendcode/internal/run/config"
)

// systemd shows a credential's file only to a running service. If a command can't find such a file
// while the service is stopped, this is no mistake. Any other missing file is a mistake.
func TestCredentialsOfSystemdMayBeAway(t *testing.T) {
	for path, want := range map[string]bool{"/run/credentials/sendcode.service/google.json": true, "/etc/sendcode/google.json": false} {
		text := "smtp_url: smtp://codes%40shop.example@smtp.gmail.com:587?oauth=google\nmail_from: Shop <codes@shop.example>\n" +
			"oauth: {google: {service_account_file: " + path + ", subject: codes@shop.example}}\n"
		_, err := config.Load([]string{"SENDCODE_CONFIG_YAML=" + text}, func(string) ([]byte, error) { return nil, fs.ErrNotExist })
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
