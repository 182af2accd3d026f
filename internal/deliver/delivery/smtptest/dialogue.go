package smtptest

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/mail"
	"slices"
	"strings"
	"time"
)

// dialogue is the server's side of one connection.
type dialogue struct {
	server  *Server
	stopped chan struct{}
	before  int // how many connections were open when this one began
	conn    net.Conn
	in      *bufio.Reader

	encrypted, loggedIn bool
	from                string
	to                  []string
}

func (d *dialogue) script() (script Script) {
	d.server.locked(func() { script = d.server.script })
	return script
}

func (d *dialogue) run() {
	d.in = bufio.NewReader(d.conn)
	if d.script().TLS == Implicit && !d.encrypt() {
		return
	}
	if !d.act(Greet, "220 smtptest ESMTP") {
		return
	}
	for {
		line, ok := d.readLine()
		if !ok {
			return
		}
		d.server.locked(func() { d.server.commands = append(d.server.commands, line) })
		if !d.command(line) {
			return
		}
	}
}

func (d *dialogue) readLine() (string, bool) {
	line, err := d.in.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err == nil
}

// command answers one line; false ends the connection.
func (d *dialogue) command(line string) bool {
	verb, argument, _ := strings.Cut(line, " ")
	switch strings.ToUpper(verb) {
	case "EHLO":
		return d.act(Hello, d.capabilities())
	case "HELO":
		return d.act(Hello, "250 smtptest")
	case "STARTTLS":
		return d.startTLS()
	case "AUTH":
		return d.auth(argument)
	case "MAIL":
		return d.mail(argument)
	case "RCPT":
		return d.rcpt(argument)
	case "DATA":
		return d.data()
	case "RSET":
		d.from, d.to = "", nil
		return d.act(Reset, "250 2.0.0 ok")
	case "QUIT":
		d.act(Quit, "221 2.0.0 bye")
		return false
	}
	return d.write("500 5.5.2 what?\r\n", Rule{})
}

func (d *dialogue) capabilities() string {
	script := d.script()
	lines := append([]string{"smtptest"}, script.Extensions...)
	if script.TLS == STARTTLS && !d.encrypted {
		lines = append(lines, "STARTTLS")
	}
	if script.Username != "" {
		lines = append(lines, "AUTH "+strings.Join(script.Mechanisms, " "))
	}
	last := len(lines) - 1
	return "250-" + strings.Join(lines[:last], "\r\n250-") + "\r\n250 " + lines[last]
}

func (d *dialogue) startTLS() bool {
	if d.encrypted || d.script().TLS != STARTTLS {
		return d.act(StartTLS, "502 5.5.1 no TLS here")
	}
	rule := d.rule(StartTLS, "")
	if !d.follow(rule, "220 2.0.0 go ahead") {
		return false
	}
	if rule.Reply != "" && !strings.HasPrefix(rule.Reply, "220") {
		return true
	}
	return d.encrypt()
}

func (d *dialogue) encrypt() bool {
	if !d.act(Handshake, "") {
		return false
	}
	config := tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: d.script().MaxTLS}
	d.server.locked(func() { config.Certificates = []tls.Certificate{*cmp.Or(d.server.script.Identity, &d.server.identity)} })
	secure := tls.Server(d.conn, &config)
	if secure.Handshake() != nil {
		return false
	}
	d.conn, d.in, d.encrypted = secure, bufio.NewReader(secure), true
	return true
}

func (d *dialogue) mail(argument string) bool {
	if d.script().Username != "" && !d.loggedIn {
		return d.act(Mail, "530 5.7.0 authentication required")
	}
	rule := d.rule(Mail, "")
	if refuses(rule) {
		return d.follow(rule, "")
	}
	d.from, d.to = path(argument), nil
	return d.follow(rule, "250 2.1.0 ok")
}

func (d *dialogue) rcpt(argument string) bool {
	to := path(argument)
	rule := d.rule(Rcpt, to)
	if d.from == "" && rule == (Rule{}) {
		return d.write("503 5.5.1 MAIL first\r\n", Rule{})
	}
	if refuses(rule) {
		return d.follow(rule, "")
	}
	d.to = append(d.to, to)
	return d.follow(rule, "250 2.1.5 ok")
}

// path takes the address out of FROM:<address> or TO:<address>.
func path(argument string) string {
	_, address, _ := strings.Cut(argument, "<")
	address, _, _ = strings.Cut(address, ">")
	return address
}

// refuses reports whether the rule answers 4xx or 5xx.
func refuses(r Rule) bool {
	answer := r.Reply + r.Raw
	return strings.HasPrefix(answer, "4") || strings.HasPrefix(answer, "5")
}

func (d *dialogue) recipient() string {
	if len(d.to) == 0 {
		return ""
	}
	return d.to[0]
}

func (d *dialogue) data() bool {
	if len(d.to) == 0 {
		return d.act(Data, "503 5.5.1 no recipient")
	}
	rule := d.rule(Data, d.recipient())
	if !d.follow(rule, "354 go ahead") {
		return false
	}
	if rule.Reply != "" && !strings.HasPrefix(rule.Reply, "354") {
		return true
	}
	content, ok := d.body()
	if !ok {
		d.server.locked(func() { d.server.partial++ })
		return false
	}
	return d.endOfData(content)
}

// body reads up to the final dot. It returns false if the dot never came, or if a rule for Body
// ends the connection.
func (d *dialogue) body() ([]byte, bool) {
	var content bytes.Buffer
	for first := true; ; first = false {
		line, err := d.in.ReadBytes('\n')
		switch {
		case err != nil:
			return nil, false
		case bytes.Equal(line, []byte(".\r\n")):
			return content.Bytes(), true
		}
		content.Write(bytes.TrimPrefix(line, []byte(".")))
		if first && !d.follow(d.rule(Body, d.recipient()), "") {
			return nil, false
		}
	}
}

func (d *dialogue) endOfData(content []byte) bool {
	rule := d.rule(Dot, d.recipient())
	if !refuses(rule) {
		d.server.accept(Message{ID: messageID(content), From: d.from, To: slices.Clone(d.to), Data: bytes.Clone(content), At: time.Now()})
	}
	recipient := d.recipient()
	d.from, d.to = "", nil
	if !d.follow(rule, "250 2.0.0 accepted") {
		return false
	}
	return d.follow(d.rule(Idle, recipient), "")
}

func messageID(content []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return ""
	}
	return strings.Trim(m.Header.Get("Message-Id"), "<>")
}

// auth runs one AUTH exchange (RFC 4954).
func (d *dialogue) auth(argument string) bool {
	if rule := d.rule(Auth, ""); rule != (Rule{}) {
		d.loggedIn = strings.HasPrefix(rule.Reply, "235")
		return d.follow(rule, "")
	}
	name, initial, _ := strings.Cut(argument, " ")
	script := d.script()
	switch strings.ToUpper(name) {
	case "PLAIN":
		d.loggedIn = decode(initial) == "\x00"+script.Username+"\x00"+script.Password
	case "LOGIN":
		user := d.challenge("Username:")
		password := d.challenge("Password:")
		d.loggedIn = user == script.Username && password == script.Password
	case "XOAUTH2", "OAUTHBEARER":
		if initial == "" {
			initial = base64.StdEncoding.EncodeToString([]byte(d.challenge("")))
		}
		_, token, _ := strings.Cut(decode(initial), "auth=Bearer ")
		user := "user=" + script.Username
		end := ""
		if name == "OAUTHBEARER" {
			user, end = "n,a="+strings.ReplaceAll(script.Username, "=", "=3D")+",\x01host=", "\x01"
		}
		d.loggedIn = strings.HasPrefix(decode(initial), user) && token == script.Password+"\x01\x01" && len("AUTH "+argument) <= 510
		if !d.loggedIn && d.challenge(`{"status":"401","schemes":"bearer","scope":"https://mail.google.com/","user":"`+script.Username+
			`"}`) != end {
			return false
		}
	default:
		return d.write("504 5.5.4 unknown mechanism\r\n", Rule{})
	}
	if !d.loggedIn {
		return d.write("535 5.7.8 wrong, "+script.Username+"\r\n", Rule{})
	}
	return d.write("235 2.7.0 welcome\r\n", Rule{})
}

// challenge sends a 334 and returns the decoded answer.
func (d *dialogue) challenge(text string) string {
	if !d.write("334 "+base64.StdEncoding.EncodeToString([]byte(text))+"\r\n", Rule{}) {
		return ""
	}
	answer, _ := d.readLine()
	return decode(answer)
}

func decode(text string) string {
	decoded, _ := base64.StdEncoding.DecodeString(text)
	return string(decoded)
}

// act does what a rule says for the stage, or sends the usual answer if no rule matches.
func (d *dialogue) act(stage Stage, usual string) bool {
	return d.follow(d.rule(stage, ""), usual)
}

// follow does what the rule says. If the rule has no answer of its own, the answer is usual. follow
// returns false if the connection ends.
func (d *dialogue) follow(r Rule, usual string) bool {
	if r.Until != nil && !wait(d, r.Until) || r.Delay > 0 && !wait(d, time.After(r.Delay)) {
		return false
	}
	answer := r.Reply
	if answer == "" && r.Raw == "" && !r.Stall && !r.ends() {
		answer = usual
	}
	if answer != "" {
		answer += "\r\n"
	}
	if !d.write(answer+r.Raw, r) {
		return false
	}
	if r.Stall {
		<-d.stopped
	}
	d.end(r)
	return !r.Stall && !r.ends()
}

func (r Rule) ends() bool { return r.Close || r.Abort }

// end closes the connection as the rule says, without the message with which TLS ends a stream.
func (d *dialogue) end(r Rule) {
	raw := d.conn
	if secure, ok := raw.(*tls.Conn); ok {
		raw = secure.NetConn()
	}
	if tcp, ok := raw.(*net.TCPConn); ok && r.Abort {
		_ = tcp.SetLinger(0)
	}
	if r.ends() {
		_ = raw.Close()
	}
}

func (d *dialogue) write(text string, r Rule) bool {
	if text == "" {
		return true
	}
	if !r.Slow {
		_, err := d.conn.Write([]byte(text))
		return err == nil
	}
	pause := cmp.Or(r.Pause, slowPause)
	for n := range len(text) {
		if _, err := d.conn.Write([]byte{text[n]}); err != nil || !wait(d, time.After(pause)) {
			return false
		}
	}
	return true
}

// wait waits for the channel; false: the server has stopped.
func wait[T any](d *dialogue, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-d.stopped:
		return false
	}
}
