-- Rows as 90 days of a busy service leave them, the newest now: $1 is the first number, $2 the last, $3 how many there are
-- in all. What is rare is rare: one app has a row in 100,000, one rule refuses one in 10,000.
WITH row AS (
    SELECT n, md5(n::text) AS random, clock_timestamp() - ($3 - n) * (interval '90 days' / $3) AS at,
           md5((n * 7919 % greatest($3 / 5, 1))::text) AS recipient
    FROM generate_series($1::bigint, $2::bigint) AS n
), kind AS (
    SELECT row.*, CASE WHEN n % 9 = 4 THEN 'refused' WHEN n % 31 = 7 THEN 'failed' WHEN n % 997 = 5 THEN 'unknown' ELSE 'sent' END AS status,
           (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(random, 1, 3) || '8' || substr(random, 4, 15))::uuid AS id
    FROM row
), verification AS (
    INSERT INTO verifications (id, app, channel, purpose, recipient, masked, sealed, holder, nonce, key_id, code_length, alphabet, locale, reference,
                               created_at, expires_at, attempts, max_attempts, sends, approved_at)
    SELECT 'v' || random, 'shop', 'email', 'login', decode(recipient, 'hex'), 'a•••@example.com', NULL, '', decode(random, 'hex'), 'k1', 6, 'digits', 'en', '',
           at, at + interval '10 minutes', n % 4, 5, 1, CASE WHEN n % 4 = 1 THEN at + interval '30 s' END
    FROM kind WHERE status <> 'refused' AND n % 10 = 0
), request AS (
    SELECT n, at, random, id, status, decode(recipient, 'hex') AS recipient,
           CASE WHEN n % 100000 = 77777 THEN 'tiny' WHEN n % 10 = 3 THEN 'desk' ELSE 'shop' END AS app,
           CASE WHEN n % 20 = 11 THEN 'sms' ELSE 'email' END AS channel,
           CASE WHEN n % 50000 = 33333 THEN 'gift' WHEN n % 5 = 2 THEN 'signup' ELSE 'login' END AS purpose,
           CASE WHEN n % 20 = 11 THEN '+49 151•••021' WHEN n % 100000 = 55555 THEN 'a•••@tiny.example' ELSE 'a•••@' || (ARRAY['example.com', 'qq.com', 'gmail.com'])[1 + n % 3] END AS masked,
           CASE WHEN n % 20 = 11 THEN '' WHEN n % 100000 = 55555 THEN 'tiny.example' ELSE (ARRAY['example.com', 'qq.com', 'gmail.com'])[1 + n % 3] END AS domain,
           CASE WHEN n % 20 <> 11 THEN '' WHEN n % 100000 = 11111 THEN 'TV' ELSE 'DE' END AS country, CASE WHEN n % 20 = 11 THEN '+49151' ELSE '' END AS prefix,
           CASE WHEN n % 10 = 1 THEN 'order-' || n ELSE '' END AS reference
    FROM kind
), written AS (
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, ip, status, reason, attempt, counts,
                   logged_at, finished_at, provider, provider_code, took)
SELECT id, CASE WHEN n % 10 = 0 THEN 'v' || random ELSE '' END, 1, app, channel, purpose, recipient, masked, domain, country, prefix, 'en', reference, '192.0.2.0/24', status,
       CASE status WHEN 'failed' THEN 'rejected' WHEN 'unknown' THEN 'no_answer' ELSE '' END,
       1, status IN ('sent', 'unknown'), at, at + interval '180 ms',
       CASE WHEN n % 100000 = 22222 THEN 'mx9.example.net' ELSE 'mx1.example.net' END, CASE status WHEN 'sent' THEN '250 2.0.0' WHEN 'failed' THEN '550 5.1.1' ELSE '' END,
       184000
FROM request WHERE status <> 'refused'
RETURNING id, status, reason, logged_at, finished_at, app, channel, recipient, provider
), refused AS (
INSERT INTO refusals (id, verification_id, app, channel, purpose, recipient, masked, domain, country, prefix, locale, ip, logged_at, blocked_by, retry_after,
                      requests, recipients)
SELECT id, '', app, channel, purpose, recipient, masked, domain, country, prefix, 'en', '192.0.2.0/24', at,
       CASE WHEN n % 10000 = 4444 THEN 'office' WHEN n % 7 = 1 THEN 'hour' ELSE 'minute' END, 42000000, 1, 0
FROM request WHERE status = 'refused'
), failed AS (
    INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
    SELECT status, logged_at, id, finished_at, status = 'failed', app, channel, recipient FROM written WHERE status IN ('failed', 'unknown')
)
INSERT INTO minute_index (field, value, minute)
SELECT DISTINCT 'provider', provider, date_trunc('minute', logged_at) FROM written WHERE provider <> '' ON CONFLICT DO NOTHING;
