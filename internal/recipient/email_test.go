package recipient

import (
	"strings"
	"testing"
)

func TestParseEmail(t *testing.T) {
	label63 := strings.Repeat("d", 63)
	local64 := strings.Repeat("l", 64)
	for name, c := range map[string]struct{ raw, address, masked string }{
		"plain":                  {"ana@example.com", "ana@example.com", "a•••@example.com"},
		"one letter":             {"a@example.com", "a@example.com", "a•••@example.com"},
		"spaces around":          {"  ana@example.com  ", "ana@example.com", "a•••@example.com"},
		"local case stays":       {"Ana.Maria@Example.COM", "Ana.Maria@example.com", "A•••@example.com"},
		"tag":                    {"ana+shop@example.com", "ana+shop@example.com", "a•••@example.com"},
		"every atom character":   {"a!#$%&'*+-/=?^_`{|}~9@example.com", "a!#$%&'*+-/=?^_`{|}~9@example.com", "a•••@example.com"},
		"hyphen first":           {"-ana@example.com", "-ana@example.com", "-•••@example.com"},
		"idn":                    {"ana@bücher.example", "ana@xn--bcher-kva.example", "a•••@bücher.example"},
		"idn, upper case":        {"ana@BÜCHER.Example", "ana@xn--bcher-kva.example", "a•••@bücher.example"},
		"idn as A-label":         {"ana@XN--BCHER-KVA.example", "ana@xn--bcher-kva.example", "a•••@bücher.example"},
		"idn, sharp s is itself": {"ana@straße.example", "ana@xn--strae-oqa.example", "a•••@straße.example"},
		"chinese domain":         {"ana@例子.中国", "ana@xn--fsqu00a.xn--fiqs8s", "a•••@例子.中国"},
		"chinese dot":            {"ana@例子。中国", "ana@xn--fsqu00a.xn--fiqs8s", "a•••@例子.中国"},
		"full-width domain":      {"ana@ｅｘａｍｐｌｅ．ｃｏｍ", "ana@example.com", "a•••@example.com"},
		"hyphens like punycode":  {"ana@r3---sn-a.example", "ana@r3---sn-a.example", "a•••@r3---sn-a.example"},
		"numeric label":          {"ana@163.com", "ana@163.com", "a•••@163.com"},
		"non-ascii local":        {"ána@example.com", "ána@example.com", "á•••@example.com"},
		"chinese local":          {"小明@example.com", "小明@example.com", "小•••@example.com"},
		"decomposed local":       {"e\u0301va@example.com", "e\u0301va@example.com", "é•••@example.com"},
		"devanagari local":       {"कि@example.com", "कि@example.com", "कि•••@example.com"},
		"local of 64":            {local64 + "@example.com", local64 + "@example.com", "l•••@example.com"},
		"254 octets":             {local64 + "@" + label63 + "." + label63 + "." + strings.Repeat("e", 58) + ".ab", "", ""},
		"zero-width via A-label": {"ana@xn--mgbaw3gfg64gp19l.example", "ana@xn--mgbaw3gfg64gp19l.example",
			"a•••@xn--mgbaw3gfg64gp19l.example"},
		"cyrillic that is clear":       {"ana@почта.рф", "ana@xn--80a1acny.xn--p1ai", "a•••@почта.рф"},
		"cyrillic like latin":          {"ana@аррӏе.com", "ana@xn--80ak6aa92e.com", "a•••@xn--80ak6aa92e.com"},
		"mixed scripts":                {"ana@gооgle.com", "ana@xn--ggle-55da.com", "a•••@xn--ggle-55da.com"},
		"right to left":                {"ana@דוגמה.example", "ana@xn--6dbbec0c.example", "a•••@xn--6dbbec0c.example"},
		"dotless i":                    {"ana@gmaıl.com", "ana@xn--gmal-nza.com", "a•••@xn--gmal-nza.com"},
		"greek":                        {"ana@παράδειγμα.example", "ana@xn--hxajbheg2az3al.example", "a•••@xn--hxajbheg2az3al.example"},
		"japanese":                     {"ana@ドメイン名.example", "ana@xn--eckwd4c7c777u.example", "a•••@ドメイン名.example"},
		"korean":                       {"ana@도메인.example", "ana@xn--hq1bm8jm9l.example", "a•••@도메인.example"},
		"katakana like a slash":        {"ana@comノ.example", "ana@xn--com-mn4b.example", "a•••@xn--com-mn4b.example"},
		"catalan middle dot":           {"ana@col·lecció.example", "ana@xn--collecci-ioa91d.example", "a•••@xn--collecci-ioa91d.example"},
		"katakana like a slash, alone": {"ana@ノ.example", "ana@xn--ldk.example", "a•••@xn--ldk.example"},
		"cyrillic, each like latin":    {"ana@сосо.example", "ana@xn--n1aahb.example", "a•••@xn--n1aahb.example"},
		"cyrillic, one letter clear":   {"ana@сосол.example", "ana@xn--k1afakb.example", "a•••@сосол.example"},
		"katakana middle dot":          {"ana@ア・ア.example", "ana@xn--ccka0y.example", "a•••@xn--ccka0y.example"},
		"han beside latin letters":     {"ana@shop商店.example", "ana@xn--shop-ou2gn70c.example", "a•••@xn--shop-ou2gn70c.example"},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustParse(t, Email, c.raw)
			if c.address != "" && (r.Address() != c.address || r.Masked() != c.masked) {
				t.Errorf("got %q, %q\nwant %q, %q", r.Address(), r.Masked(), c.address, c.masked)
			}
			if r.Channel() != Email || r.Country() != "" || r.VoIP() {
				t.Errorf("channel %q, country %q, voip %v", r.Channel(), r.Country(), r.VoIP())
			}
		})
	}
}

func TestParseEmailRefuses(t *testing.T) {
	long := strings.Repeat("l", 65)
	label63 := strings.Repeat("d", 63)
	for name, c := range map[string]struct{ raw, reason string }{
		"nothing":                    {"", "empty"},
		"only spaces":                {"   ", "empty"},
		"no at":                      {"ana.example.com", "no_at_sign"},
		"full-width at":              {"ana＠example.com", "full_width_character"},
		"nothing before":             {"@example.com", "no_local_part"},
		"nothing after":              {"ana@", "no_domain"},
		"two ats":                    {"ana@b@example.com", "several_addresses"},
		"two addresses":              {"ana@example.com,ben@example.com", "several_addresses"},
		"semicolon":                  {"ana@example.com;ben@example.com", "several_addresses"},
		"group":                      {"all:ana@example.com", "several_addresses"},
		"display name":               {"Ana <ana@example.com>", "display_name"},
		"angle brackets":             {"<ana@example.com>", "display_name"},
		"comment":                    {"ana(home)@example.com", "comment"},
		"quoted local part":          {`"ana"@example.com`, "quoted_local_part"},
		"quoted with a space":        {`"a b"@example.com`, "quoted_local_part"},
		"backslash":                  {`a\b@example.com`, "invalid_character"},
		"address literal":            {"ana@[192.0.2.1]", "ip_literal"},
		"v6 literal":                 {"ana@[IPv6:2001:db8::1]", "ip_literal"},
		"bare ip":                    {"ana@192.0.2.1", "ip_literal"},
		"numeric top level":          {"ana@example.123", "invalid_domain"},
		"inner space":                {"an a@example.com", "space"},
		"space before at":            {"ana @example.com", "space"},
		"no-break space":             {"ana\u00a0@example.com", "space"},
		"ideographic space":          {"ana@example.com\u3000", "space"},
		"leading dot":                {".ana@example.com", "misplaced_dot"},
		"trailing dot before at":     {"ana.@example.com", "misplaced_dot"},
		"consecutive dots":           {"a..b@example.com", "misplaced_dot"},
		"domain leading dot":         {"ana@.example.com", "misplaced_dot"},
		"domain trailing dot":        {"ana@example.com.", "misplaced_dot"},
		"domain trailing wide dot":   {"ana@例子。中国。", "misplaced_dot"},
		"domain halfwidth dots":      {"ana@example｡．com", "misplaced_dot"},
		"domain consecutive dots":    {"ana@example..com", "misplaced_dot"},
		"local of 65":                {long + "@example.com", "local_part_too_long"},
		"local of 65 octets":         {strings.Repeat("é", 33) + "@example.com", "local_part_too_long"},
		"255 octets":                 {long[:64] + "@" + label63 + "." + label63 + "." + strings.Repeat("e", 59) + ".ab", "too_long"},
		"400 characters":             {strings.Repeat("l", 20) + "@" + strings.Repeat("dddddddddd.", 34) + "example", "too_long"},
		"very long":                  {strings.Repeat("a", 1100) + "@example.com", "too_long"},
		"label of 64":                {"ana@" + label63 + "d.com", "invalid_domain"},
		"one label":                  {"ana@localhost", "domain_incomplete"},
		"underscore":                 {"ana@ex_ample.com", "invalid_domain"},
		"hyphen before the label":    {"ana@-example.com", "invalid_domain"},
		"hyphen after the label":     {"ana@example-.com", "invalid_domain"},
		"broken punycode":            {"ana@xn--a.com", "invalid_domain"},
		"punycode of ascii":          {"ana@xn--example-.com", "invalid_domain"},
		"emoji domain":               {"ana@💩.la", "invalid_domain"},
		"emoji domain as A-label":    {"ana@xn--ls8h.la", "invalid_domain"},
		"symbol domain":              {"ana@☃.net", "invalid_domain"},
		"slash in the domain":        {"ana@example.com/x", "invalid_domain"},
		"port":                       {"ana@example.com:25", "several_addresses"},
		"bidi rule broken":           {"ana@אa1.example", "invalid_domain"},
		"emoji local part":           {"😀@example.com", "invalid_character"},
		"bullet":                     {"•••@example.com", "invalid_character"},
		"mark first":                 {"\u0301a@example.com", "invalid_character"},
		"curly apostrophe":           {"o’neil@example.com", "invalid_character"},
		"full-width local part":      {"ａna@example.com", "full_width_character"},
		"half-width katakana":        {"ｱ@example.com", "full_width_character"},
		"line feed":                  {"ana@example.com\nBcc: b@example.com", "control_character"},
		"line feed at the end":       {"ana@example.com\n", "control_character"},
		"carriage return":            {"ana\r@example.com", "control_character"},
		"nul":                        {"ana\x00@example.com", "control_character"},
		"tab before":                 {"\tana@example.com", "control_character"},
		"delete":                     {"ana\x7f@example.com", "control_character"},
		"c1":                         {"ana\u0085@example.com", "control_character"},
		"line separator":             {"ana@example\u2028.com", "control_character"},
		"not utf-8":                  {"an\xffa@example.com", "encoding"},
		"bidi override":              {"ana\u202emoc@example.com", "invisible_character"},
		"zero-width space":           {"ana\u200b@example.com", "invisible_character"},
		"zero-width joiner":          {"a\u200dna@example.com", "invisible_character"},
		"zero-width in the domain":   {"ana@exam\u200bple.com", "invisible_character"},
		"soft hyphen in the domain":  {"ana@exam\u00adple.com", "invisible_character"},
		"byte order mark":            {"\ufeffana@example.com", "invisible_character"},
		"variation selector":         {"ana\ufe0f@example.com", "invisible_character"},
		"hangul filler":              {"ana\u3164@example.com", "invisible_character"},
		"tag character":              {"ana\U000e0041@example.com", "invisible_character"},
		"smtp parameter":             {"ana@example.com> SIZE=1", "display_name"},
		"smtp parameter, no bracket": {"ana@example.com NOTIFY=NEVER", "space"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(Email, c.raw)
			wantReason(t, err, c.reason)
		})
	}
}
