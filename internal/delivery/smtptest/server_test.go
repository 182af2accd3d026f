package smtptest_test

import (
	"net"
	"net/smtp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/parts"
)

// send sends with the standard library's client, so that the server is not only tested by the client it tests.
func send(server *smtptest.Server, id string, to ...string) error {
	return smtp.SendMail(server.Addr(), nil, "from@x.example", to, []byte("Message-ID: <"+id+">\r\n\r\n.dot\r\n..\r\n"))
}

func mustSend(t *testing.T, server *smtptest.Server, id string, to ...string) {
	t.Helper()
	if err := send(server, id, to...); err != nil {
		t.Fatal(err)
	}
}

func TestServerRecords(t *testing.T) {
	server := smtptest.Start(t, smtptest.Script{})
	mustSend(t, server, "1@x", "a@x.example", "b@x.example")
	mustSend(t, server, "2@x", "a@x.example")
	got := server.Await(2)
	if len(got) != 2 || got[0].ID != "1@x" || got[0].From != "from@x.example" ||
		!slices.Equal(got[0].To, []string{"a@x.example", "b@x.example"}) {
		t.Errorf("messages %+v", got)
	}
	if !strings.HasSuffix(string(got[0].Data), "\r\n\r\n.dot\r\n..\r\n") {
		t.Errorf("data %q", got[0].Data)
	}
	if n := server.Recipients(); n["a@x.example"] != 2 || n["b@x.example"] != 1 || server.ByID()["2@x"] != 1 {
		t.Errorf("recipients %v", n)
	}
	if server.Connections() != 2 || server.Partial() != 0 {
		t.Errorf("%d connections, %d partial", server.Connections(), server.Partial())
	}
}

func TestAwaitWaits(t *testing.T) {
	server := smtptest.Start(t, smtptest.Script{})
	sent := make(chan error, 1)
	go func() { sent <- send(server, "1@x", "a@x.example") }()
	if got := server.Await(1); len(got) != 1 {
		t.Errorf("%d messages", len(got))
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestRules(t *testing.T) {
	server := smtptest.Start(t, smtptest.Script{Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: "unknown@x.example", Reply: "550 5.1.1 no"},
		{Stage: smtptest.Rcpt, Skip: 1, Times: 2, Reply: "451 4.7.1 later"},
	}})
	for n, want := range []string{"", "451", "451", "", ""} {
		err := send(server, "x@x", "a@x.example")
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("mail %d: %v, want %q", n, err, want)
		}
	}
	if err := send(server, "x@x", "unknown@x.example"); err == nil || !strings.HasPrefix(err.Error(), "550") {
		t.Errorf("unknown: %v", err)
	}
	if len(server.Messages()) != 3 {
		t.Errorf("%d messages", len(server.Messages()))
	}
	server.SetScript(smtptest.Script{Rules: []smtptest.Rule{{Stage: smtptest.Dot, Reply: "554 no"}}})
	if err := send(server, "y@x", "a@x.example"); err == nil || len(server.Messages()) != 3 {
		t.Errorf("a refused message was accepted, %v", err)
	}
}

func TestDownAndUpOnOnePort(t *testing.T) {
	server := smtptest.StartAt(t, parts.FreePort(t), smtptest.Script{})
	mustSend(t, server, "1@x", "a@x.example")
	addr := server.Addr()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server.Stop()
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("still listening")
	}
	buffer := make([]byte, 100)
	for err == nil {
		_, err = conn.Read(buffer) // ends, as Stop closes what is open
	}
	server.Restart()
	if server.Addr() != addr {
		t.Errorf("moved from %s to %s", addr, server.Addr())
	}
	mustSend(t, server, "2@x", "a@x.example")
	if len(server.Messages()) != 2 {
		t.Errorf("%d messages", len(server.Messages()))
	}
}
