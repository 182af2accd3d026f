package smtp_test

import (
	"bytes"
	"testing"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
)

// FuzzReplies puts any bytes in place of an answer and then closes. Nothing but a whole line that starts with the right
// code is an answer, and no error shows what was said.
func FuzzReplies(f *testing.F) {
	stages := []smtptest.Stage{smtptest.Greet, smtptest.Hello, smtptest.Mail, smtptest.Rcpt, smtptest.Data, smtptest.Dot}
	for n := range stages {
		f.Add(n, []byte("250 2.0.0 "+recipient+"\r\n"))
		f.Add(n, []byte("550-5.1.1 "+recipient+"\r\n550 "+code+"\r\n"))
		f.Add(n, []byte("550-5.1.1 "+recipient+"\r\n55"))
		f.Add(n, []byte("354 \n"))
		f.Add(n, []byte("220 a\r\n220 b\r\n"))
		f.Add(n, []byte("\r\n\x00\xff-250 "))
	}
	f.Fuzz(func(t *testing.T, n int, said []byte) {
		if n < 0 || n >= len(stages) || len(said) == 0 {
			t.Skip()
		}
		servertest.Bubble(t, func(t *testing.T) {
			server := smtptest.New(t, misbehaving(smtptest.Rule{Stage: stages[n], Raw: string(said), Close: true}))
			_, err := piped(t, server).Send(t.Context(), smtptest.Sample(1))
			checkReply(t, outcomeOf(t, err), stages[n], said)
		})
	})
}

func checkReply(t *testing.T, got outcome, stage smtptest.Stage, said []byte) {
	whole := bytes.HasSuffix(said, []byte("\n")) || bytes.Count(said, []byte("\n")) > 0
	switch {
	case got == outcome{}:
		if stage != smtptest.Dot || !whole || said[0] != '2' {
			t.Fatalf("accepted at %s upon %q", stage, said)
		}
	case got.class == delivery.Rejected:
		if !whole || said[0] != '5' || got.code/100 != 5 {
			t.Fatalf("%v upon %q", got, said)
		}
	case got.class == delivery.Unknown && stage != smtptest.Dot:
		t.Fatalf("%v upon %q at %s", got, said, stage)
	}
}
