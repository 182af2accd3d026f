package app

import (
	"fmt"
	"io"
	"strings"

	"sendcode/internal/http/page"
	"sendcode/internal/run/config"
)

// printBanner prints the service's addresses and the generated secrets for a person. It prints
// nothing if the output is no terminal and no secret was generated, because the log has the
// addresses.
func (a *App) printBanner(out io.Writer) {
	if !a.cfg.Terminal && len(a.generated) == 0 {
		return
	}
	base := "http://" + a.Addr()
	fmt.Fprintf(out, "\nsendcode is running.\n\n")
	if a.cfg.Page.App != "" {
		fmt.Fprintf(out, "  page      %s/\n", base)
	}
	if a.mailbox != nil {
		fmt.Fprintf(out, "  mailbox   %s/mailbox?k=%s   every code\n", base, a.cfg.MailboxKey())
	}
	if a.cfg.AdminLoginEnabled() {
		fmt.Fprintf(out, "  console   http://%s/admin\n", a.adminAddr())
	}
	if token := a.cfg.TrialMetricsToken(); token != "" {
		fmt.Fprintf(out, "  metrics   %s/metrics   with the token %s\n", base, token)
	} else if a.cfg.AdminAddr != "" && !a.cfg.MetricsToken.IsSet() {
		fmt.Fprintf(out, "  metrics   http://%s/metrics   without a token\n", a.adminAddr())
	}
	for _, g := range a.generated {
		fmt.Fprintf(out, "  %-9s %s\n", g.Label, g.Value)
	}
	if a.cfg.Loopback() {
		fmt.Fprintf(out,
			"\nGenerated keys and the mailbox work only for programs on this machine: requests with a proxy's headers are refused.\n")
	}
	for _, g := range a.generated {
		if g.Name != "SENDCODE_API_KEY" {
			continue
		}
		fmt.Fprintf(out, "\nAsk for a code as a back end does:\n\n  %s\n", page.AskCommand(base, g.Value))
		fmt.Fprintf(out,
			"\nOr put the widget into a page of %s. A page gets the public key, never the one above:\n\n"+
				"  <script type=\"module\" src=\"%s/widget.js\"></script>\n  <send-code public-key=\"%s\"></send-code>\n",
			strings.Join(config.LocalOrigins[:len(config.LocalOrigins)/2], ", "), base, a.cfg.LocalPublicKey)
	}
	fmt.Fprintln(out)
}
