-- Sends of recipients of their own, spread from $4 to $5, each with a verification: $1 is the first number, $2 the last, $3 how many there
-- are in all. One in 31 failed.
WITH row AS (
    SELECT n, md5($4::timestamptz::text || n) AS random, $4::timestamptz + n * (($5::timestamptz - $4::timestamptz) / $3::bigint) AS at
    FROM generate_series($1::bigint, $2::bigint) AS n
), verification AS (
    INSERT INTO verifications (id, app, channel, purpose, recipient, masked, sealed, holder, nonce, key_id, code_length, alphabet, locale, reference,
                               created_at, expires_at, attempts, max_attempts, sends, approved_at)
    SELECT 'old' || random, 'shop', 'email', 'login', decode(random, 'hex'), 'a•••@example.com', NULL, '', decode(random, 'hex'), 'k1', 6, 'digits', 'en', '',
           at, at + interval '10 minutes', 1, 5, 1, at + interval '30 s'
    FROM row
), written AS (
    INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, ip, status, reason,
                       attempt, counts, logged_at, finished_at, provider, provider_code, took)
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(random, 1, 3) || '8' || substr(random, 4, 15))::uuid,
           'old' || random, 1, 'shop', 'email', 'login', decode(random, 'hex'), 'a•••@example.com', 'example.com', '', '', 'en', '', '192.0.2.0/24',
           CASE WHEN n % 31 = 7 THEN 'failed' ELSE 'sent' END, CASE WHEN n % 31 = 7 THEN 'rejected' ELSE '' END,
           1, n % 31 <> 7, at, at + interval '180 ms', 'mx1.example.net', '250 2.0.0', 184000
    FROM row
    RETURNING id, status, logged_at, finished_at, app, channel, recipient
)
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT status, logged_at, id, finished_at, true, app, channel, recipient FROM written WHERE status = 'failed';
