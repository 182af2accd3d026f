package recipient

import (
	"slices"
	"testing"
)

func TestSuggest(t *testing.T) {
	for typed, want := range map[string]string{
		"gmial.com": "gmail.com", "gamil.com": "gmail.com", "gmai.com": "gmail.com", "gmaill.com": "gmail.com",
		"gnail.com": "gmail.com", "gmail.con": "gmail.com", "gmail.co": "gmail.com", "gmail.cm": "gmail.com",
		"gmailcom": "gmail.com", "qqcom": "qq.com", "gmail.comm": "gmail.com", "gmail.cmo": "gmail.com",
		"GMIAL.com":   "gmail.com",
		"hotmial.com": "hotmail.com", "hotmal.com": "hotmail.com", "htomial.com": "hotmail.com",
		"hotmail.cmo": "hotmail.com",
		"outlok.com":  "outlook.com", "outloook.co": "outlook.com", "oulook.com": "outlook.com",
		"yaho.com": "yahoo.com", "yahooo.com": "yahoo.com", "yahoo.co.ku": "yahoo.co.uk", "iclould.com": "icloud.com",
		"qq.con": "qq.com", "qq.cmo": "qq.com", "qq.comm": "qq.com", "163.con": "163.com", "126.ocm": "126.com",
		"foxmial.com": "foxmail.com", "vip.qq.con": "vip.qq.com", "sina.con": "sina.com", "aliyum.com": "aliyun.com",
		"gmx.ed": "gmx.de", "web.d": "web.de", "t-onlin.de": "t-online.de", "laposte.ent": "laposte.net",
		"exmaple.com": "example.com", "exampel.com": "example.com", "protonmial.com": "protonmail.com",
	} {
		if got, ok := SuggestDomain(typed); got != want || !ok {
			t.Errorf("Suggest(%q) = %q, %v, want %q", typed, got, ok, want)
		}
		if got, ok := SuggestDomain("Ana.M+1@" + typed); got != "Ana.M+1@"+want || !ok {
			t.Errorf("Suggest of an address at %q = %q, %v", typed, got, ok)
		}
	}
}

// For these domains and texts there is no suggestion. Many are real domains near a well-known one.
// A suggestion could send their users' mail to strangers.
func TestSuggestLeavesRealDomainsAlone(t *testing.T) {
	real := []string{
		"mail.com", "email.com", "ymail.com", "googlemail.com", "hotmail.de", "hotmail.ca", "hotmail.cl", "hotmail.it",
		"hotmail.fr", "outlook.de", "outlook.cz", "outlook.es", "yahoo.de", "yahoo.ca", "yahoo.com.br", "yahoo.co.in",
		"yahoo.co.id", "live.de", "live.cn", "line.com", "love.com", "qq.cn", "qt.com", "ge.com", "we.com", "139.net",
		"163.net", "136.com", "263.net", "gmx.at", "gmx.ch", "web.com", "gmail.ru", "mail.de", "mail.ua", "yandex.com",
		"yandex.kz", "ya.ru", "protonmail.ch", "pm.me", "tutanota.com", "hushmail.com", "rocketmail.com", "orange.com",
		"free.fr", "sfr.fr", "company.example", "qr.con", "small.com", "qq.", "qqc", "gmaicom", "gm.de", "example.net",
		"x.de", "t.co", "", "com",
		"localhost", "a",
	}
	for _, domain := range slices.Concat(real, wellKnownDomains, realLookAlikeDomains) {
		for _, input := range []string{domain, "ana@" + domain} {
			if got, ok := SuggestDomain(input); ok || got != "" {
				t.Errorf("Suggest(%q) = %q", input, got)
			}
		}
	}
}
