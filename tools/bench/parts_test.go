package main

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/tools/bench/report"
)

func TestFlags(t *testing.T) {
	p, err := flags([]string{"-rounds=2", "-callers=1,8", "-rows=1000,2000", "-level=0"})
	if err != nil || p.rounds != 2 || !slices.Equal(p.callers, []int{1, 8}) || !slices.Equal(p.rows, []int{1000, 2000}) || p.level != 0 {
		t.Errorf("%+v %v", p, err)
	}
	for _, bad := range [][]string{{"-rounds=0"}, {"-callers=x"}, {"-callers=0"}, {"-rows=1,"}} {
		if _, err := flags(bad); err == nil {
			t.Errorf("%v passes", bad)
		}
	}
}

func TestUnitCallers(t *testing.T) {
	for want, callers := range map[int][]int{64: {1, 64, 256}, 8: {1, 8}} {
		if got := unitCallers(callers); got != want {
			t.Errorf("%v: %d", callers, got)
		}
	}
}

func TestReadProc(t *testing.T) {
	if spent, err := readSchedstat("98397 84676 2\n"); err != nil || spent != 98397 {
		t.Errorf("%v %v", spent, err)
	}
	for _, bad := range []string{"", "1 2", "x 2 3"} {
		if _, err := readSchedstat(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
	if pid, parent, err := readStat("4711 (a ) (b) S 17 4711\n"); err != nil || pid != 4711 || parent != 17 {
		t.Errorf("%d %d %v", pid, parent, err)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S", "x (y) S 1"} {
		if _, _, err := readStat(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
	if got := statusField("Name:\tx\nVmHWM:\t   20 kB\nVmRSS:\t   12 kB\n", "VmRSS"); got != 12*1024 {
		t.Error(got)
	}
	if got := cpuModel("processor\t: 0\nmodel name\t: Some CPU\n"); got != "Some CPU" {
		t.Error(got)
	}
}

func TestMachineTime(t *testing.T) {
	busy, all := readMachineTime("cpu  10 2 3 100 50 1 2 4 9 9\ncpu0 1 1 1 1\n")
	if busy != 220*time.Millisecond || all != 1720*time.Millisecond {
		t.Error(busy, all)
	}
	if busy, all := readMachineTime(""); busy != 0 || all != 0 {
		t.Error(busy, all)
	}
}

func TestUsageSince(t *testing.T) {
	got := usage{"1/1": 5, "1/2": 7, "2/1": 4}.since(usage{"1/1": 3, "1/9": 100})
	if got != 2+7+4 {
		t.Error(got)
	}
}

func TestMetric(t *testing.T) {
	const text = "# TYPE a counter\na 1.5e+06\na_total 3\n"
	if metric(text, "a") != 1.5e6 || metric(text, "a_total") != 3 || metric(text, "b") != 0 {
		t.Error(metric(text, "a"), metric(text, "a_total"))
	}
}

func TestAddRecords(t *testing.T) {
	var w report.WAL
	for _, kind := range []string{"Btree/INSERT_LEAF", "Btree/SPLIT_R", "Btree/INSERT_UPPER", "Heap/INSERT", "Transaction/COMMIT",
		"Transaction/ABORT"} {
		addRecords(&w, kind, 2, 10)
	}
	if want := (report.WAL{Records: 12, Images: 60, Entries: 4, Commits: 2}); w != want {
		t.Errorf("%+v", w)
	}
}

func TestFileSystems(t *testing.T) {
	for magic, memory := range map[int64]bool{0x01021994: true, 0x858458f6: true, 0xef53: false, 0x1234: false} {
		if name, got := fileSystemOf(magic); got != memory || name == "" {
			t.Errorf("%x: %s, in memory: %v", magic, name, got)
		}
	}
}

func TestPerSecond(t *testing.T) {
	began := time.Unix(100, 0)
	at := func(s float64) sample { return sample{answered: began.Add(time.Duration(s * float64(time.Second)))} }
	got := perSecond([]sample{at(.1), at(.9), at(1.5), at(2.5)}, []time.Duration{0, 200 * time.Millisecond, 0, 0}, began, 2*time.Second)
	if !slices.Equal(got, []int{1, 2}) {
		t.Error(got)
	}
}

// A conversation as the service and the floors have it, the second part in one write.
func TestReceiver(t *testing.T) {
	client, server := net.Pipe()
	r := &receiver{texts: map[int64][]byte{}}
	go r.session(server)
	in := bufio.NewReader(client)
	expect := func(codes ...string) {
		t.Helper()
		for _, code := range codes {
			for more := true; more; {
				line, err := in.ReadString('\n')
				if err != nil || !strings.HasPrefix(line, code) {
					t.Fatalf("%q %v, want %s", line, err, code)
				}
				more = line[3] == '-'
			}
		}
	}
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(client, text); err != nil {
			t.Fatal(err)
		}
	}
	expect("220")
	say("EHLO x\r\n")
	expect("250")
	for _, n := range []int64{firstRecipient, firstRecipient + 2} {
		say("MAIL FROM:<a@b>\r\nRCPT TO:<" + recipient(n) + ">\r\nDATA\r\n")
		expect("250", "250", "354")
		say("one\r\n..two\r\n.\r\n")
		expect("250")
	}
	say("QUIT\r\n")
	expect("221")
	if r.at(firstRecipient) == 0 || r.at(firstRecipient+1) != 0 || r.at(firstRecipient+2) == 0 || r.at(firstRecipient+3) != 0 {
		t.Errorf("times %v", r.times)
	}
	got := r.answer(mailQuery{First: firstRecipient, Last: firstRecipient + 1, Text: true})
	if len(got.Times) != 1 || string(got.Texts[0]) != "one\r\n..two\r\n" {
		t.Errorf("%+v", got)
	}
}

func TestNumberOf(t *testing.T) {
	for line, want := range map[string]int64{"RCPT TO:<someone-12@example.com>\r\n": 12, "RCPT TO:<victim@example.com>": 0, "": 0} {
		if got := numberOf(line); got != want {
			t.Errorf("%q: %d", line, got)
		}
	}
}

func TestSamples(t *testing.T) {
	head := "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nDate: today\r\nLocation: /x\r\nRatelimit: \"minute\";r=0\r\n\r\n"
	s, err := newSamples([]byte(head), []byte(`{"id":"V","send":{"id":"S"}}`), []byte("Subject: 1\r\n\r\nYour code is\r\n\r\n123456\r\n"),
		"a@b")
	if err != nil || s.Verification != "V" || s.Send != "S" || s.Digits != "123456" || s.To != "a@b" {
		t.Errorf("%+v %v", s, err)
	}
	if len(s.Headers) != 2 || s.Headers.Get("RateLimit") != `"minute";r=0` {
		t.Errorf("headers %v", s.Headers)
	}
	if _, err := newSamples([]byte(head), []byte(`{}`), []byte("\r\n123456\r\n"), "a@b"); err == nil {
		t.Error("an answer without IDs passes")
	}
	if _, err := codeIn([]byte("12345\r\n1234567\r\n")); err == nil {
		t.Error("a mail without a code passes")
	}
}

// Each turn from reading to writing is one trip, however many writes it takes.
func TestTripCounter(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, line)
		}
	}()
	c, err := newTripCounter(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.listener.Close()
	conn, err := net.Dial("tcp", c.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for want := range int64(3) {
		for _, part := range []string{"a", "b", "\n"} {
			if _, err := io.WriteString(conn, part); err != nil {
				t.Fatal(err)
			}
		}
		if line, err := in.ReadString('\n'); err != nil || line != "ab\n" {
			t.Fatalf("%q %v", line, err)
		}
		if got := c.trips.Load(); got != want+1 {
			t.Errorf("%d trips, want %d", got, want+1)
		}
	}
}

func TestCallerReads(t *testing.T) {
	for text, want := range map[string]int{
		"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok": 202,
		"HTTP/1.1 204 No Content\r\n\r\n":                      204,
		"HTTP/1.1 200 OK\r\n\r\n":                              0,
		"nonsense\r\n\r\n":                                     0,
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n":         0,
	} {
		c := caller{in: bufio.NewReader(strings.NewReader(text))}
		status, err := c.read()
		if status != want && want != 0 || (err == nil) != (want != 0) {
			t.Errorf("%q: %d %v", text, status, err)
		}
		if want == 202 && string(c.body) != "ok" {
			t.Errorf("body %q", c.body)
		}
	}
}

func TestCumulative(t *testing.T) {
	const top = "      flat  flat%   sum%        cum   cum%\n     0.5s 10% 10% 1.2s 24.0%  net/http.(*conn).serve\n"
	if got := cumulative(top, `net/http.\(\*conn\).serve$`); got != "24.0%" {
		t.Error(got)
	}
	if got := cumulative(top, `nothing$`); got != "" {
		t.Error(got)
	}
}
