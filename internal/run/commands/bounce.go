package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"sendcode/internal/deliver/feedback"
	"sendcode/internal/run/config"
)

// BounceTarget says where to post a bounce mail. The settings supply a field that is empty.
type BounceTarget struct {
	URL        string `placeholder:"URL" help:"The URL at which the service takes bounce mails, such as http://127.0.0.1:8080/v1/events/bounces. The default follows from the settings."`
	SecretFile string `type:"path" placeholder:"FILE" help:"A file with the secret of the source of bounce mails. The default is the secret in the settings."`
}

const (
	// maxMail is the size of the largest mail that the service accepts, in bytes.
	maxMail = 1 << 20
	// bouncePatience bounds the request. After a failure, the mail server that started this command
	// tries again later.
	bouncePatience = 30 * time.Second
)

// PostBounce posts a mail to the running service. If PostBounce returns no error, the caller can
// drop the mail. In this case the service answered 204, or the mail is too large to be a bounce of
// the service's mails. If PostBounce returns an error, the caller should post the mail again.
func PostBounce(ctx context.Context, b BounceTarget, settings func() (config.Config, error), mail io.Reader, out io.Writer) error {
	url, secret, err := b.resolve(settings)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(mail, maxMail+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxMail:
		_, _ = fmt.Fprintln(out, "sendcode: the mail was dropped, since it is larger than 1 MiB")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bouncePatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "message/rfc822")
	request.Header.Set("Authorization", "Bearer "+secret)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusNoContent:
		return nil
	case http.StatusUnauthorized:
		return fmt.Errorf("%s did not accept the secret: if the secret was changed, restart the service", url)
	case http.StatusNotFound:
		return fmt.Errorf("%s does not exist: if provider_events was changed, restart the service; otherwise correct the URL", url)
	}
	return fmt.Errorf("the service answered %s", answer.Status)
}

// resolve returns the URL and the secret. It reads the settings only if URL or secret is not given.
func (b BounceTarget) resolve(settings func() (config.Config, error)) (url, secret string, err error) {
	url = b.URL
	if b.SecretFile != "" {
		file, err := os.ReadFile(b.SecretFile)
		if err != nil {
			return "", "", err
		}
		secret = strings.TrimSpace(strings.TrimPrefix(string(file), "\ufeff")) // some editors of Windows begin a file with this byte order mark
	}
	if url != "" && secret != "" {
		return url, secret, nil
	}
	cfg, err := settings()
	if err != nil {
		return "", "", err
	}
	source, ok := feedback.BounceSource(cfg.Providers)
	if !ok {
		return "", "", errors.New("provider_events has no entry with the scheme dsn: give --url and --secret-file")
	}
	if url == "" {
		url = "http://" + cfg.Addr + "/v1/events/" + source.Name
	}
	if secret == "" {
		secret = source.Secret.Reveal()
	}
	return url, secret, nil
}
