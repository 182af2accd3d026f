package config

import (
	"strings"
	"testing"
)

// The checks that tags name accept and refuse these values. What they say of "hidden" never shows
// it.
func TestChecks(t *testing.T) {
	hash := func(from, to string) string { return strings.Replace(goodHash, from, to, 1) }
	long := strings.Repeat("a", 64)
	for name, c := range map[string]struct{ right, wrong []string }{
		"addr": {
			[]string{"localhost:0", "127.0.0.1:65535", ":80", "[::1]:80"},
			[]string{"8080", "http://127.0.0.1:8080", "localhost:65536", "localhost:http", "localhost:080", "a b:80"},
		},
		"database_url": {
			[]string{
				"postgres://h/d", "postgresql://u@h:5432/d", "postgres://u:p%40%2F@h1:1,h2/d?sslmode=disable",
				"postgres:///d?host=/var/run/postgresql",
				"postgres://u:p@[::1]:5432/d", "postgres://h",
				"postgres://h/d?pool_max_conns=1", "postgres://h/d?sslmode=disable&pool_max_conns=1000",
			},
			[]string{
				"mysql://u:p@h/d", "postgres:///d", "host=h password=hidden", "postgres://u:12/hidden@h/d",
				"postgres://u:p@hidden@h/d",
				"postgres://u:100%hidden@h/d", "postgres://u:p@h:x/d", "postgres://u:***@h/d", "postgres://u:p%00@h/d",
				"postgres://h/d?pool_max_conns=0", "postgres://h/d?pool_max_conns=1001",
				"postgres://h/d?pool_max_conns=hidden", "postgres://h/d?pool_max_conns=",
			},
		},
		"redis_url": {
			[]string{
				"redis://h", "redis://:p@h:6379/1", "rediss://u:p@[::1]/0?pool_size=5&min_idle_conns=2",
				"redis+sentinel://u:p@h1,h2:26379/master/0",
				"redis+sentinel://[::1]:26379,h2/master?sentinel_password=p%26q", "redis+cluster://h1,h2",
				"rediss+cluster://u:p%40@h1:7000,[::1]?pool_size=5&min_idle_conns=2",
			},
			[]string{
				"http://h", "redis+cluster://u:hidden@h1,h2/0", "redis://u:12?hidden@h",
				"redis+sentinel://h/m/0?sentinel_password=a&hidden=b",
				"redis://h/0?hidden=b", "redis://h/0#hidden", "rediss://h?ca=/no/hidden.pem",
				"redis+sentinel://h/m/0?sentinel_password=***",
			},
		},
		"smtp_url": {
			[]string{"smtp://h", "smtps://u%40shop.example:p%2Fw@h:465", "smtp://u:p@h1, smtp://[::1]:2525?tls=none",
				"smtp://h?tls=opportunistic&hello=shop.example"},
			[]string{"mail.example.net:587", "smtp://u:12#hidden@h", "smtp://h,smtp://h?tls=maybe"},
		},
		"mail_from": {
			[]string{"a@b.example", "Ü <" + long + "@SHOP.example>", `"Acme, Inc. (Billing)" <a@b.example>`},
			[]string{"Shop", "a@b.example, c@d.example", "Shop (Billing) <a@b.example>", "Acme, Inc. <a@b.example>", `<"a b"@c.example>`, "a" + long + "@b.example",
				"=?utf-8?q?a=0D=0ABcc?= <a@b.example>"},
		},
		"ring": {[]string{goodRing + "," + otherRing}, []string{goodRing + ",k2:hidden", "hidden"}},
		"index_key": {
			[]string{goodIndex}, []string{"c2hvcnQ=", "k1:" + goodIndex, strings.Repeat("A", 43) + "="},
		},
		"api_key": {[]string{goodKey, "sk_12345678"},
			[]string{"hidden-hidden-hidden", "sk_", "pk_hiddenhiddenhidden"}},
		"password": {[]string{"zwölf Zeiche"}, []string{"elevenchars", "日本語日本語", "éééééééééééé", goodHash}},
		"password_hash": {
			[]string{goodHash, hash("m=65536,t=3,p=4", "m=7168,t=5,p=1"),
				hash("m=65536,t=3,p=4", "m=1048576,t=20,p=255")},
			[]string{
				"$2a$10$hidden", hash("id", "i"), hash("m=65536,t=3", "m=7168,t=4"), hash("m=65536,t=3", "m=7167,t=20"),
				hash("m=65536", "m=4194304"),
				hash("t=3", "t=21"), hash("p=4", "p=256"), "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$c2hvcnQ",
			},
		},
		"token": {[]string{"twenty-characters-ok"}, []string{"nineteen-characters"}},
		"name":  {[]string{"shop", "a_b-1"}, []string{"My Shop", "", "SK_HIDDEN hidden"}},
		"title": {[]string{strings.Repeat("é", 64), "The Shop"},
			[]string{"see https://x", "evil.example", "a" + long, "a\u202eb"}},
		"origin": {
			[]string{"https://shop.example", "http://localhost:3000"},
			[]string{
				"https://*.example", "*", "null", "https://a.example/", "https://A.example", "https://a.example:443",
				"https://münchen.example",
				"https://a.example:", "https://hidden@a.example", "ftp://a.example",
			},
		},
		"return_url": {
			[]string{"https://shop.example", "https://shop.example/signup", "https://shop.example/signup/",
				"http://localhost:3000/done"},
			[]string{
				"shop.example", "https://shop.example/*", "https://shop.example/a?b=c", "https://shop.example/a#b",
				"https://u@shop.example/",
				"https://Shop.example/", "https://shop.example/a/../b", "https://shop.example/a%2fb",
				"https://shop.example:443/", "javascript:alert(1)", "/signup",
			},
		},
		"accent": {[]string{"#D1381F"}, []string{"red"}},
		"home":   {[]string{"https://shop.example/"}, []string{"http://shop.example", "javascript:alert(1)"}},
		"logo": {
			[]string{"https://shop.example/logo.svg"},
			[]string{
				"http://shop.example/l.svg", "https://shop.example/l.svg; script-src *", "https://shop.example/a,b.svg",
				"https://shop.example/l.svg?v=1",
				"https://*.example/l.svg",
			},
		},
		"key_hash": {
			[]string{strings.Repeat("ab", 32)},
			[]string{"sk_hidden", strings.Repeat("0", 64),
				"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		},
		"test_code": {[]string{"123456", "BCDFGHJK"}, []string{"12345", "12345678901", "12345x", "12345B", "BCDFGA"}},
		"proxy": {
			[]string{"10.1.2.3/8", "192.0.2.7", "fd00::/8"},
			[]string{"proxy", "fe80::1%eth0", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104"},
		},
		"country":   {[]string{"DE", "001"}, []string{"Germany", "49", "de", "*", "XX"}},
		"prefix":    {[]string{"+49"}, []string{"49", "+"}},
		"unwatched": {[]string{"+49", "+86138", "+"}, []string{"+4915123", "49", ""}},
		"sender":    {[]string{"The Shop", "+15005550006", "12345"}, []string{"The Great Shop", "Sh&op"}},
		"page_host": {[]string{"shop.example"}, []string{"https://shop.example", "shop.example:8080", "Shop.example"}},
		"public_url": {[]string{"https://codes.example.com/x"},
			[]string{"http://codes.example.com", "https://codes.example.com/?a=1"}},
		"secure_url": {[]string{"https://id.example/realms/main", "http://127.0.0.1:5556"}, []string{
			"http://id.example", "https://u:p@id.example", "id.example", "https://id.example/realms#main",
		}},
		"redirect_url": {[]string{"https://c.example/admin/oidc/callback"},
			[]string{"http://c.example/admin/oidc/callback", "https://c.example/admin/oidc/start"}},
		"webhook_url": {[]string{"https://shop.example:8443/hooks?of=sendcode", "http://10.1.2.3/hooks"}, []string{
			"https://user:hidden@shop.example/", "https://shop.example/?token=***", "ftp://shop.example/", "https://",
			"https://shop.example/#hidden",
		}},
		"webhook_secrets": {[]string{"shop:" + hookOne + ",shop:" + hookTwo + ",gift:" + hookThree}, []string{
			hookOne, "shop:" + hookOne + ",", "shop:" + hookOne + ",shop:" + hookTwo + ",shop:" + hookThree,
			"shop:" + hookOne + ",gift:" + hookOne,
			"shop:" + hookOne[6:], "shop:whsec_AAAA", "shop:whsec_" + strings.Repeat("A", 88), "shop:whsec_hidden",
		}},
	} {
		check := checksByName[name]
		for _, text := range c.right {
			if problem := check(text); problem != "" {
				t.Errorf("%s refuses %q: %s", name, text, problem)
			}
		}
		for _, text := range c.wrong {
			if problem := check(text); problem == "" || strings.Contains(problem, "hidden") ||
				strings.Contains(problem, hookOne[6:]) {
				t.Errorf("%s of %q: %q", name, text, problem)
			}
		}
	}
}
