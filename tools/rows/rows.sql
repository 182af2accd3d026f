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
), written AS (
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, ip, status, reason, attempt, counts,
                   taken_at, clock, logged_at, finished_at, provider, provider_code, took, blocked_by, retry_after, requests)
SELECT id, CASE WHEN status <> 'refused' AND n % 10 = 0 THEN 'v' || random ELSE '' END, CASE WHEN status = 'refused' THEN 0 ELSE 1 END,
       CASE WHEN n % 100000 = 77777 THEN 'tiny' WHEN n % 10 = 3 THEN 'desk' ELSE 'shop' END,
       CASE WHEN n % 20 = 11 THEN 'sms' ELSE 'email' END,
       CASE WHEN n % 50000 = 33333 THEN 'gift' WHEN n % 5 = 2 THEN 'signup' ELSE 'login' END,
       decode(recipient, 'hex'),
       CASE WHEN n % 20 = 11 THEN '+49 151•••021' WHEN n % 100000 = 55555 THEN 'a•••@tiny.example' ELSE 'a•••@' || (ARRAY['example.com', 'qq.com', 'gmail.com'])[1 + n % 3] END,
       CASE WHEN n % 20 = 11 THEN '' WHEN n % 100000 = 55555 THEN 'tiny.example' ELSE (ARRAY['example.com', 'qq.com', 'gmail.com'])[1 + n % 3] END,
       CASE WHEN n % 20 <> 11 THEN '' WHEN n % 100000 = 11111 THEN 'TV' ELSE 'DE' END, CASE WHEN n % 20 = 11 THEN '+49151' ELSE '' END, 'en',
       CASE WHEN n % 10 = 1 THEN 'order-' || n ELSE '' END, '192.0.2.0/24', status,
       CASE status WHEN 'failed' THEN 'rejected' WHEN 'unknown' THEN 'no_answer' ELSE '' END,
       CASE WHEN status = 'refused' THEN 0 ELSE 1 END, status IN ('sent', 'unknown'), at, 'process', at, at + interval '180 ms',
       CASE WHEN status = 'refused' THEN '' WHEN n % 100000 = 22222 THEN 'mx9.example.net' ELSE 'mx1.example.net' END, CASE status WHEN 'sent' THEN '250 2.0.0' WHEN 'failed' THEN '550 5.1.1' ELSE '' END,
       184000, CASE WHEN status <> 'refused' THEN '' WHEN n % 10000 = 4444 THEN 'office' WHEN n % 7 = 1 THEN 'hour' ELSE 'minute' END,
       CASE WHEN status = 'refused' THEN 42000000 ELSE 0 END, 1
FROM kind
RETURNING id, status, reason, logged_at, finished_at, app, channel, recipient, provider
), failed AS (
    INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
    SELECT status, logged_at, id, finished_at, status = 'failed', app, channel, recipient FROM written WHERE status IN ('failed', 'unknown')
)
INSERT INTO minute_index (field, value, minute)
SELECT DISTINCT 'provider', provider, date_trunc('minute', logged_at) FROM written WHERE provider <> '' ON CONFLICT DO NOTHING;
