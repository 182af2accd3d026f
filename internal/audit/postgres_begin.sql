-- The second gate: decides and writes a batch of intents, at most one of a recipient, in one statement that runs after
-- the recipients' locks were taken by a statement of its own. Under READ COMMITTED its snapshot is therefore younger
-- than the locks and sees all that earlier holders committed. {{now}} is the log's clock. Bounds of IDs leave partitions out
-- before the statement begins, and say nothing that the times do not say while the log's clock is where the caller thinks it is:
-- from $35 on and before $36. From $37 to $38 is what any of the batch counts, from $39 to $40 what it would write.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS now
), intent AS MATERIALIZED (
    SELECT clock.now,
           u.id NOT BETWEEN sendcode_lowest_id(clock.now - {{drift}}) AND sendcode_lowest_id(clock.now + {{drift}}) AS drifted,
           u.i, u.id, u.app, u.channel, u.purpose, u.recipient, u.masked, u.country, u.prefix, u.locale, u.reference, u.ip, u.clock,
           coalesce(u.taken_at, clock.now) AS taken, -- no limiter took it: the log's instant
           u.lease * interval '1 microsecond' AS lease,
           string_to_array(u.purposes, E'\x1f') AS purposes,
           u.limits::bigint[] AS limits,
           u.windows::bigint[] AS windows, u.longest, -- µs
           u.turns::bigint[] AS turns, -- of each calendar rule four turns of its periods around the log's clock
           -- When it is decided, and how much earlier than its Take: a limiter's clock runs ahead by {{lead}} at most.
           (extract(epoch FROM least(coalesce(u.taken_at, clock.now), clock.now + {{lead}})) * 1000000)::bigint AS at_us,
           coalesce(u.taken_at > clock.now + {{lead}}, false) AS early,
           clock.now < $35 OR clock.now >= $36 AS lost,
           u.join_id, u.min_life * interval '1 microsecond' AS min_life,
           u.verification, u.sealed, u.holder, u.nonce, u.key_id, u.code_length, u.alphabet,
           u.life * interval '1 microsecond' AS life, u.max_attempts, u.observed,
           u.rejections, u.rejecting * interval '1 microsecond' AS rejecting, u.address, u.by_browser
    FROM clock, unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::timestamptz[], $11::text[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[],
                $17::bigint[], $18::text[], $19::bigint[], $20::text[], $21::bytea[], $22::text[], $23::bytea[], $24::text[],
                $25::int[], $26::bigint[], $27::int[], $28::text[], $29::int[], $30::bigint[], $31::text[], $32::bytea[], $33::text[], $34::text[], $41::boolean[])
         WITH ORDINALITY AS u(id, app, channel, purpose, recipient, masked, locale, reference, ip,
                taken_at, clock, lease, purposes, limits, windows, turns, longest,
                join_id, min_life, verification, sealed, holder, nonce, key_id, code_length,
                life, max_attempts, observed, rejections, rejecting, alphabet, address, country, prefix, by_browser, i)
), decided AS MATERIALIZED (
    SELECT intent.*, past.ids, past.ages, failed.ids AS failed_ids, failed.ages AS failed_ages, earlier.id IS NOT NULL AS repeated, rules.elsewhere, suppressed.id AS suppression,
           checks.locked, code.by_browser AS code_by_browser,
           NOT intent.drifted AND NOT rules.elsewhere AND NOT EXISTS (
               SELECT FROM unnest(intent.limits, rules.widths) AS rule(places, width)
               WHERE (SELECT count(*) FROM unnest(past.ages) AS age WHERE age < rule.width) >= rule.places
           ) AND (intent.rejections = 0 OR coalesce(cardinality(failed.ids), 0) < intent.rejections) AS allowed
    FROM intent
    -- A calendar rule counts the ages back to the turn with which the period began. Its width was told for the instant
    -- of the Take; for any other instant it is found between the turns, and outside of them nothing is decided.
    CROSS JOIN LATERAL (
        SELECT array_agg(CASE WHEN searched THEN intent.at_us - began + 1 ELSE width END ORDER BY n) AS widths,
               intent.lost OR coalesce(bool_or(searched AND (began IS NULL OR intent.at_us >= intent.turns[4 * n])), false) AS elsewhere
        FROM unnest(intent.windows) WITH ORDINALITY AS rule(width, n),
             LATERAL (SELECT width = 0 OR intent.early AND intent.turns[4 * n] > 0 AS searched) AS calendar,
             LATERAL (SELECT max(turn) AS began FROM unnest(intent.turns[4 * n - 3 : 4 * n - 1]) AS turn
                      WHERE turn <= intent.at_us) AS told
    ) rules
    -- Lateral with an aggregate, a limit or an offset, and times compared behind the recipient they belong to: the planner can
    -- only look each recipient up by its index. It knows of a partition that is made ahead no more than that it is empty, and
    -- would else come to read all of its rows once its time has come.
    CROSS JOIN LATERAL (
        SELECT array_agg(s.id) AS ids, array_agg(s.age) AS ages
        FROM (
            -- Ages on one clock: the intent's where the row has it, as far as the log's bears it out, else the log's.
            -- A negative age counts.
            SELECT s.id, (extract(epoch FROM CASE
                       WHEN s.clock = intent.clock
                       THEN least(intent.taken - s.taken_at, intent.now - s.logged_at + {{lead}})
                       ELSE intent.now - s.logged_at END) * 1000000)::bigint AS age
            FROM sends s
            WHERE s.counts AND s.recipient = intent.recipient AND s.app = intent.app AND s.channel = intent.channel
              AND s.purpose = ANY (intent.purposes)
              -- No row counts for longer than a day over its window by the log's clock: a limiter that was once far
              -- ahead does not lock its recipients out.
              AND (s.recipient, s.app, s.channel, s.logged_at) > (intent.recipient, intent.app, intent.channel,
                   intent.now - (intent.longest + 86400000000) * interval '1 microsecond')
              AND (s.id >= $37 OR s.id > $37) AND (s.id < $38 OR s.id <= $38) -- an OR is of use to no index
            OFFSET 0
        ) s
        WHERE s.age < intent.longest
    ) past
    -- What failed for good, or was not even tried, gave its place back, and counts here instead, whatever its purpose.
    CROSS JOIN LATERAL (
        SELECT array_agg(s.id) AS ids, array_agg((extract(epoch FROM intent.now - s.finished_at) * 1000000)::bigint) AS ages
        FROM (
            SELECT s.id, s.finished_at FROM sends s
            WHERE s.status = 'failed' AND s.reason IN ('rejected', 'suppressed', 'paused') AND NOT s.forgiven
              AND s.recipient = intent.recipient AND s.app = intent.app AND s.channel = intent.channel
              AND (s.recipient, s.app, s.channel, s.finished_at) > (intent.recipient, intent.app, intent.channel, intent.now - intent.rejecting)
              AND (s.id >= $37 OR s.id > $37) AND (s.id < $38 OR s.id <= $38) -- an OR is of use to no index
            OFFSET 0
        ) s
    ) failed
    -- The code that the send would carry: of the verification that is named, while it can be joined, or of a new one.
    CROSS JOIN LATERAL (
        SELECT coalesce((
            SELECT v.by_browser FROM verifications v
            WHERE intent.join_id <> '' AND v.id = intent.join_id
              AND v.app = intent.app AND v.channel = intent.channel AND v.purpose = intent.purpose AND v.recipient = intent.recipient
              AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts
              AND v.expires_at > intent.now AND v.expires_at - intent.now >= intent.min_life
        ), intent.by_browser) AS by_browser
        OFFSET 0
    ) code
    -- While wrong codes lock such codes out (failures.go), none of them is sent.
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(greatest(0, o.attempts - o.forgiven - CASE WHEN o.approved_at IS NULL THEN 0 ELSE 1 END))
                        FILTER (WHERE o.expires_at > intent.now - {{failure window}}), 0) >= {{failure limit}}
            OR coalesce(sum(o.attempts - o.forgiven)
                        FILTER (WHERE o.approved_at IS NULL AND (o.last_right IS NULL OR o.expires_at > o.last_right)), 0) >= {{row limit}} AS locked
        FROM (
            SELECT v.attempts, v.forgiven, v.approved_at, v.expires_at, max(v.approved_at) OVER () AS last_right FROM verifications v
            WHERE v.attempts > 0 AND v.recipient = intent.recipient AND v.app = intent.app AND v.channel = intent.channel
              AND (v.recipient, v.app, v.channel, v.expires_at) > (intent.recipient, intent.app, intent.channel, intent.now - {{row window}})
              AND v.by_browser = code.by_browser
        ) o
    ) checks
    -- Who gets no mail for a while: the send is written all the same, and says why it goes to nobody.
    LEFT JOIN LATERAL (
        SELECT x.id FROM suppressions x
        WHERE x.lifted_at IS NULL AND x.address = intent.address AND x.channel = intent.channel AND x.until > intent.now AND x.app IN ('', intent.app)
        ORDER BY x.until DESC, x.id DESC LIMIT 1
    ) suppressed ON true
    -- A repeated call, after an answer that was lost.
    LEFT JOIN LATERAL (SELECT s.id FROM sends s WHERE s.id >= intent.id AND s.id <= intent.id AND s.id BETWEEN $39 AND $40 ORDER BY s.id LIMIT 1) earlier ON true
), gate AS MATERIALIZED (
    SELECT decided.*, decided.allowed AND NOT decided.locked AS room FROM decided
), candidate AS MATERIALIZED (
    SELECT gate.i, v.id
    FROM gate
    CROSS JOIN LATERAL (
        (SELECT v.id FROM verifications v
         WHERE gate.join_id <> '' AND v.id = gate.join_id
           AND v.app = gate.app AND v.channel = gate.channel AND v.purpose = gate.purpose AND v.recipient = gate.recipient
           AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts
           AND v.expires_at > gate.now AND v.expires_at - gate.now >= gate.min_life
         LIMIT 1)
        UNION ALL
        (SELECT v.id FROM verifications v
         WHERE gate.join_id = '' AND gate.holder <> '' AND v.holder <> '' AND v.holder = gate.holder
           AND v.app = gate.app AND v.channel = gate.channel AND v.purpose = gate.purpose AND v.recipient = gate.recipient
           AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts
           AND v.expires_at > gate.now AND v.expires_at - gate.now >= gate.min_life
         ORDER BY v.created_at DESC, v.id DESC LIMIT 1)
    ) v
    WHERE gate.room AND NOT gate.repeated
), joined AS (
    -- Checks go on meanwhile. What a check changed under us is looked at again here, once its row is ours.
    UPDATE verifications v SET sends = v.sends + 1
    FROM candidate
    WHERE v.id = candidate.id AND v.approved_at IS NULL AND v.canceled_at IS NULL AND v.attempts < v.max_attempts
    RETURNING candidate.i, {{verification}}
), opened AS (
    INSERT INTO verifications (id, app, channel, purpose, recipient, masked, sealed, holder, nonce, key_id, code_length, alphabet,
                               locale, reference, created_at, expires_at, attempts, max_attempts, sends, by_browser)
    SELECT g.verification, g.app, g.channel, g.purpose, g.recipient, g.masked, g.sealed, g.holder, g.nonce, g.key_id, g.code_length, g.alphabet,
           g.locale, g.reference, g.now, g.now + g.life, 0, g.max_attempts, 1, g.by_browser
    FROM gate g
    WHERE g.room AND NOT g.repeated AND NOT EXISTS (SELECT FROM joined WHERE joined.i = g.i)
), written AS (
    INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, country, prefix, locale, reference, ip,
                       status, attempt, counts, taken_at, clock, logged_at, due_at, observed, suppression_id)
    SELECT g.id, coalesce(joined.id, g.verification), coalesce(joined.sends, 1), g.app, g.channel, g.purpose, g.recipient, g.masked,
           g.country, g.prefix, g.locale, g.reference, g.ip, 'sending', 1, true, g.taken, g.clock, g.now, g.now + g.lease, g.observed, g.suppression
    FROM gate g LEFT JOIN joined ON joined.i = g.i
    WHERE g.room AND NOT g.repeated
)
SELECT g.now, g.repeated, g.room, g.elsewhere, g.drifted, g.ids, g.ages, g.failed_ids, g.failed_ages, g.suppression,
       g.allowed AND g.locked, g.code_by_browser, {{joined}}
FROM gate g LEFT JOIN joined ON joined.i = g.i
ORDER BY g.i
