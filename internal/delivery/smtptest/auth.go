package smtptest

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
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
	case "CRAM-MD5":
		const challenge = "<1.2@smtptest>"
		d.loggedIn = d.challenge(challenge) == script.Username+" "+cram(script.Password, challenge)
	case "SCRAM-SHA-256":
		d.loggedIn = d.scram(script.Username, script.Password)
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

// cram is the keyed digest of RFC 2195.
func cram(password, challenge string) string {
	mac := hmac.New(md5.New, []byte(password))
	mac.Write([]byte(challenge))
	return fmt.Sprintf("%x", mac.Sum(nil))
}

// scram plays the server of RFC 5802 without channel binding; user and password must be plain ASCII.
func (d *dialogue) scram(user, password string) bool {
	clientFirst := strings.TrimPrefix(d.challenge(""), "n,,")
	if !strings.HasPrefix(clientFirst, "n="+user+",r=") {
		return false
	}
	nonce := strings.TrimPrefix(clientFirst, "n="+user+",r=") + rand.Text()
	salt, rounds := []byte("sixteen bytes ok"), 4096
	serverFirst := fmt.Sprintf("r=%s,s=%s,i=%d", nonce, base64.StdEncoding.EncodeToString(salt), rounds)
	clientFinal := d.challenge(serverFirst)
	bare, proof, _ := strings.Cut(clientFinal, ",p=")
	if bare != "c=biws,r="+nonce {
		return false
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return false
	}
	transcript := clientFirst + "," + serverFirst + "," + bare
	if decode(proof) != clientProof(salted, transcript) {
		return false
	}
	signature := hmac256(hmac256(salted, "Server Key"), transcript)
	return d.challenge("v="+base64.StdEncoding.EncodeToString(signature)) == ""
}

func clientProof(salted []byte, transcript string) string {
	key := hmac256(salted, "Client Key")
	stored := sha256.Sum256(key)
	signature := hmac256(stored[:], transcript)
	for n := range key {
		key[n] ^= signature[n]
	}
	return string(key)
}

func hmac256(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
