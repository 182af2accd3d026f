package audit

import (
	"context"
)

// DomainTally is how the mails to the addresses of one domain fared.
type DomainTally struct {
	Domain   string // as masks show it
	Sends    int
	Failed   int
	Rejected int // of those that failed: refused for good by a mail server
}

func domainFields(d *DomainTally) []any { return []any{&d.Domain, &d.Sends, &d.Failed, &d.Rejected} }

// maxDomains are those with the most failures.
const maxDomains = 10

// domainsQuery counts in SQL. Few rows fail, and they have an index; only of their domains all others are counted.
func domainsQuery(q StatsQuery, d dialect) (string, []any) {
	c := statsConditions(q, d)
	return `
WITH failed (domain, failed, rejected) AS (
    SELECT s.domain, count(*), count(CASE WHEN s.reason = '` + ReasonRejected + `' THEN 1 END)
    FROM ` + d.failures + c.where() + ` AND f.status = 'failed' AND f.logged_at >= $1 AND f.logged_at < $2 AND s.status = 'failed' AND s.domain <> ''
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ` + c.arg(maxDomains) + `
)
SELECT f.domain, (SELECT count(*) FROM sends s` + c.where() + ` AND s.number > 0 AND s.domain = f.domain AND s.domain <> ''), f.failed, f.rejected
FROM failed f ORDER BY f.failed DESC, f.domain`, c.args
}

// Domains implements Statistics.
func (s *SQLite) Domains(ctx context.Context, q StatsQuery) ([]DomainTally, error) {
	q, err := q.checked()
	if err != nil {
		return nil, err
	}
	query, args := domainsQuery(q, sqliteWords)
	return sqliteRows(ctx, s, domainFields, query, args...)
}
