package config

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/document"
	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/quota"
)

// maskStars replaces a password in the output of `sendcode config`. If a URL in the settings has
// maskStars, the administrator has copied it from that output.
const (
	maskStars          = "***"
	problemStillMasked = "still has *** where `sendcode config` has masked a password"
)

// problemUnreadableURL is the message for a URL that cannot be parsed. The error of package url is
// not used, since it quotes the URL.
const problemUnreadableURL = "is not a URL that can be read (write special characters of user and password as %XX)"

// urlParts are the parts of "scheme://user:password@hosts/path?query". net/url cannot parse lists
// of hosts.
type urlParts struct {
	scheme, userinfo, hosts, path, query string
}

// splitURL splits a URL into its parts. It returns false if the URL has no ://, a second @, an @
// outside the authority, or a #. A URL with such an @ or # may have a password with / ? or #.
// Splitting it would show a part of the password as path or query.
func splitURL(text string) (urlParts, bool) {
	var p urlParts
	scheme, rest, found := strings.Cut(text, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	authority, tail := rest[:end], rest[end:]
	if !found || strings.Contains(tail, "@") || strings.Count(authority, "@") > 1 || strings.Contains(tail, "#") {
		return p, false
	}
	p.scheme = scheme
	p.userinfo, p.hosts, found = strings.Cut(authority, "@")
	if !found {
		p.userinfo, p.hosts = "", authority
	}
	p.path, p.query, _ = strings.Cut(tail, "?")
	return p, true
}

// parseURL splits a URL and makes the checks that all URLs share. If all checks pass, problem is
// "".
func parseURL(text string) (p urlParts, problem string) {
	p, ok := splitURL(text)
	if !ok {
		return p, problemUnreadableURL
	}
	_, password, _ := strings.Cut(p.userinfo, ":")
	if query, err := url.ParseQuery(p.query); err != nil {
		return p, problemUnreadableURL
	} else if password == maskStars || strings.Contains(query.Encode(), "="+url.QueryEscape(maskStars)) {
		return p, problemStillMasked
	}
	// Postgres accepts no NUL in a name or password.
	if decoded, err := url.PathUnescape(p.userinfo); err != nil || strings.ContainsRune(decoded, 0) {
		return p, problemUnreadableURL
	}
	return p, ""
}

// maxPoolConns bounds the parameter pool_max_conns of the database's URL.
const maxPoolConns = 1000

func checkDatabaseURL(value string) string {
	p, problem := parseURL(value)
	query, _ := url.ParseQuery(p.query)
	switch {
	case problem != "":
		return problem
	case p.scheme != "postgres" && p.scheme != "postgresql":
		return "must begin with postgres://"
	case p.hosts == "" && query.Get("host") == "":
		return "has no host: postgres://user:password@host:5432/database"
	case !validHosts(p.hosts):
		return "the host or the port is not valid; the form is postgres://user:password@host:5432/database"
	}
	if maxConns := query.Get("pool_max_conns"); query.Has("pool_max_conns") {
		if n, err := strconv.Atoi(maxConns); err != nil || n < 1 || n > maxPoolConns {
			return "pool_max_conns must be a number from 1 to " + strconv.Itoa(maxPoolConns)
		}
	}
	return checkDatabaseParameters(value, query)
}

// otherClients has URL parameters that only other Postgres clients know. Each key is the advice
// what to write instead, and each value lists parameters in lower case. Such a parameter is a
// mistake: the server would treat it as a server setting and refuse the connection.
var otherClients = map[string]string{
	"write search_path":    "schema currentschema",
	"write pool_max_conns": "connection_limit max maxpoolsize pool pool_size",
	"leave it out, and set pool_mode = session in PgBouncer": "pgbouncer supa workaround",
	"write sslmode":                 "requiressl sslaccept sslidentity uselibpqcompat",
	"write connect_timeout":         "connection_timeout connectiontimeoutmillis connect_timeout_ms logintimeout timeout",
	"write application_name":        "applicationname fallback_application_name",
	"write the address as the host": "hostaddr",
	"leave it out": "advisory_locks async_fallback binary_parameters checkout_timeout command_timeout conn_health_checks conn_max_age " +
		"directconnection encoding gssdelegation gssencmode gsslib idle_timeout idletimeoutmillis keepalives keepalives_count " +
		"keepalives_idle keepalives_interval load_balance_hosts loadbalancehosts pool_timeout prepare prepared_statement_cache_size " +
		"prepared_statements preparethreshold reaping_frequency replication requirepeer rewritebatchedinserts single_use_connections " +
		"socket_timeout sockettimeout ssl_max_protocol_version ssl_min_protocol_version sslcompression sslcrl sslcrldir " +
		"statement_cache_size tcp_user_timeout tcpkeepalive",
}

// checkDatabaseParameters returns a problem if a parameter of a Postgres URL is wrong. Unknown
// parameters are allowed, since they may be settings of the server, such as search_path.
func checkDatabaseParameters(value string, query url.Values) string {
	names := slices.Sorted(maps.Keys(query))
	for _, name := range names {
		for advice, others := range otherClients {
			if slices.Contains(strings.Fields(others), strings.ToLower(name)) {
				return "the parameter " + name + " is for other clients: " + advice
			}
		}
	}
	modes := []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}
	if query.Has("sslmode") && !slices.Contains(modes, query.Get("sslmode")) {
		return "sslmode must be one of " + strings.Join(modes, ", ") + ", in lower case; write require for another client's no-verify"
	}
	if _, err := pgxpool.ParseConfig(value); err == nil {
		return ""
	}
	for _, name := range names { // the error may contain a password, so it is not repeated
		_, err := pgxpool.ParseConfig("postgres://h/d?" + url.Values{name: query[name]}.Encode())
		if err != nil && parameterNamePattern.MatchString(name) {
			return "the parameter " + name + " has a value that cannot be used"
		}
	}
	return problemUnreadableURL
}

// checkRedisURL returns a problem if the Redis URL is wrong. Package quota parses the URL.
// checkRedisURL first removes min_idle_conns, since with this parameter the Redis client would
// connect at once.
func checkRedisURL(value string) string {
	p, problem := parseURL(value)
	if problem != "" {
		return problem
	}
	query, _ := url.ParseQuery(p.query)
	if query.Has("min_idle_conns") {
		query.Del("min_idle_conns")
		before, _, _ := strings.Cut(value, "?")
		value = before + "?" + query.Encode()
	}
	client, err := quota.OpenRedis(value)
	if err != nil {
		return withoutQuotedParts(strings.TrimPrefix(err.Error(), "redis URL: "))
	}
	_ = client.Close()
	return ""
}

// checkSMTPURL returns the problem with a list of mail servers' URLs, or "". Package mailserver
// parses each.
func checkSMTPURL(value string) string {
	for text := range strings.SplitSeq(value, ",") {
		if _, problem := parseURL(strings.TrimSpace(text)); problem != "" {
			return problem
		}
	}
	if _, err := mailserver.ParseURLs(value, nil); err != nil {
		return withoutQuotedParts(err.Error())
	}
	return ""
}

// withoutQuotedParts returns the message, or a general message if the message quotes a part of the
// URL. The quoted part may belong to a password.
func withoutQuotedParts(message string) string {
	if strings.ContainsAny(message, `"'`) || strings.HasPrefix(message, "redis: ") {
		return "has a path or a parameter that is not known or not valid; docs/configuration.md has the form"
	}
	return document.Printable(message)
}

// validHosts reports whether hosts is a comma-separated list of host[:port].
func validHosts(hosts string) bool {
	if hosts == "" {
		return true
	}
	for host := range strings.SplitSeq(hosts, ",") {
		one := url.URL{Host: host}
		if one.Port() == "" {
			host += ":0"
		}
		if checkAddr(host) != "" || strings.HasPrefix(host, ":") {
			return false
		}
	}
	return true
}

// hostNamePattern matches a host name, which may also have underscores.
var hostNamePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,252})$`)

// checkAddr returns the problem with a host:port, or "". An empty host means every interface; port
// 0 means any free port.
func checkAddr(value string) string {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return "must be host:port, as in 127.0.0.1:8080"
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || port != strconv.FormatUint(number, 10) {
		return "the port must be a number from 0 to 65535"
	}
	_, err = netip.ParseAddr(host)
	return problemIf(err != nil && host != "" && !hostNamePattern.MatchString(host),
		"the host must be an IP address or a host name")
}

// isLoopbackAddr reports whether a host:port is on loopback, so that only this machine reaches it.
func isLoopbackAddr(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && loopback.IsHost(host)
}

// shownURLParameters are URL parameters that contain no secret. For any other parameter, only the
// name is shown. If the name may be the end of a password that contains &, the name is hidden, too.
var shownURLParameters = []string{
	"tls", "hello", "ca", "auth", "oauth", "conns", "connections", "conns_min", "per_minute", "sslmode", "sslrootcert", "host", "port",
	"dbname", "user", "application_name",
	"connect_timeout",
	"pool_max_conns", "pool_min_conns", "target_session_attrs", "search_path", "db", "protocol", "dial_timeout",
	"read_timeout", "write_timeout", "pool_size", "max_retries", "min_idle_conns",
}

// maskURLs masks the secrets of a comma-separated list of URLs.
func maskURLs(list string) string {
	var shown []string
	for text := range strings.SplitSeq(list, ",") {
		shown = append(shown, maskURL(strings.TrimSpace(text)))
	}
	return strings.Join(shown, ",")
}

// maskURL returns a URL without its secrets. If it can't parse the URL, it returns only maskStars.
func maskURL(text string) string {
	p, ok := splitURL(text)
	switch {
	case text == "":
		return ""
	case !ok:
		return maskStars
	}
	return p.masked()
}

// ClusterURL makes the URL of a Redis Cluster from redisURL, the redis:// or rediss:// URL of one
// node. It appends "+cluster" to the scheme, leaves out the database number, and masks the secrets.
func ClusterURL(redisURL string) string {
	p, _ := splitURL(redisURL)
	query, _ := url.ParseQuery(p.query)
	query.Del("db") // a Cluster has none
	p.scheme, p.path, p.query = p.scheme+"+cluster", "", query.Encode()
	return p.masked()
}

func (p urlParts) masked() string {
	shown := p.scheme + "://"
	if p.userinfo != "" {
		shown += maskUserinfo(p.userinfo) + "@"
	}
	shown += p.hosts + p.path
	if p.query != "" {
		shown += "?" + maskQuery(p.query)
	}
	return shown
}

// maskUserinfo masks the user information of a URL. Some mail services use one token as user name
// and as password, so the user name is shown only if there is a password, and neither contains the
// other.
func maskUserinfo(userinfo string) string {
	user, password, _ := strings.Cut(userinfo, ":")
	plainUser, _ := url.PathUnescape(user)
	plainPassword, _ := url.PathUnescape(password)
	if strings.Contains(plainUser, plainPassword) || plainUser != "" && strings.Contains(plainPassword, plainUser) {
		user = maskStars
	}
	return user + ":" + maskStars
}

var parameterNamePattern = regexp.MustCompile(`^[a-z_]{1,40}$`)

func maskQuery(query string) string {
	var shown []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, assigned := strings.Cut(pair, "=")
		switch {
		case slices.Contains(shownURLParameters, name):
			shown = append(shown, pair)
		case assigned && parameterNamePattern.MatchString(name):
			shown = append(shown, name+"="+maskStars)
		default:
			shown = append(shown, maskStars)
		}
	}
	return strings.Join(shown, "&")
}
