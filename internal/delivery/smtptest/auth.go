package smtptest

import (
	"encoding/base64"
	"strings"
)

// auth plays one AUTH exchange (RFC 4954).
func (d *dialogue) auth(argument string) bool {
	if rule := d.server.rule(Auth, ""); rule != (Rule{}) {
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
	default:
		return d.write("504 5.5.4 unknown mechanism\r\n", Rule{})
	}
	if !d.loggedIn {
		return d.write("535 5.7.8 wrong, "+script.Username+"\r\n", Rule{})
	}
	return d.write("235 2.7.0 welcome\r\n", Rule{})
}

// challenge sends a 334 and gives the decoded answer.
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
