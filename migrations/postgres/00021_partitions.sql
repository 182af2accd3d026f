-- +goose NO TRANSACTION
-- +goose Up

-- The log of sends becomes a table of partitions by time (package audit, partitions.go): what is old goes with its whole
-- partition, and what reads a window reads no older one. The rows that there are stay where they are, in one partition that
-- reaches a while beyond now. Whoever runs this again after it was interrupted goes on where it stopped; a version before this
-- one goes on working before, between and after.

-- The first ID that a send of an instant can have: IDs begin with their time (RFC 9562 section 5.7).
CREATE OR REPLACE FUNCTION sendcode_lowest_id(at timestamptz) RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT (lpad(to_hex(greatest(0, floor(extract(epoch FROM at) * 1000)::bigint)), 12, '0') || '00000000000000000000')::uuid $$;

-- What all rows fulfil that there are now is written down as a constraint, and looked at beside the traffic: so they need not
-- be looked at again under the lock below. It holds new rows to it as well, so it reaches a month further at least than this
-- migration can take. It leaves with the end of it.
-- +goose StatementBegin
DO $$
DECLARE
    newest timestamptz;
    beyond timestamptz;
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'sends'::regclass) = 'p' OR EXISTS (
        SELECT FROM pg_constraint WHERE conrelid = 'sends'::regclass AND conname = 'sends_before'
           AND substring(pg_get_constraintdef(oid) FROM '''([0-9a-f-]{36})''')::uuid > sendcode_lowest_id(clock_timestamp() + interval '7 days')
    ) THEN
        RETURN;
    END IF;
    SELECT to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0) INTO newest FROM sends ORDER BY id DESC LIMIT 1;
    IF newest > clock_timestamp() + interval '1 year' THEN
        RAISE EXCEPTION 'a row of sends has an ID of the year %: it does not begin with a time near the present; give such rows another ID before you migrate', to_char(newest, 'YYYY');
    END IF;
    beyond := (date_trunc('month', greatest(clock_timestamp(), newest) AT TIME ZONE 'UTC' + interval '32 days') + interval '1 month') AT TIME ZONE 'UTC';
    ALTER TABLE sends DROP CONSTRAINT IF EXISTS sends_before;
    EXECUTE format('ALTER TABLE sends ADD CONSTRAINT sends_before CHECK (id < %L) NOT VALID', sendcode_lowest_id(beyond));
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'sends'::regclass) <> 'p' THEN
        ALTER TABLE sends VALIDATE CONSTRAINT sends_before;
    END IF;
END $$;
-- +goose StatementEnd

-- The table of before becomes the first partition of another one of its name, with the same columns, defaults, constraints,
-- indexes and rights, whatever they are. No row is read.
-- +goose StatementBegin
DO $$
DECLARE
    place  text := quote_ident(current_schema());
    index  record;
    given  record;
    bound  text;
    built  text[] := '{}';
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'sends'::regclass) = 'p' THEN
        RETURN;
    END IF;
    LOCK TABLE sends IN ACCESS EXCLUSIVE MODE;
    SELECT substring(pg_get_constraintdef(oid) FROM '''([0-9a-f-]{36})''') INTO STRICT bound
    FROM pg_constraint WHERE conrelid = 'sends'::regclass AND conname = 'sends_before' AND convalidated;

    FOR index IN
        SELECT c.relname, i.indisprimary, i.indisvalid, pg_get_indexdef(i.indexrelid) AS made
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'sends'::regclass
    LOOP
        IF NOT index.indisvalid THEN -- left behind by a build that was interrupted
            EXECUTE format('DROP INDEX %s.%I', place, index.relname);
            CONTINUE;
        END IF;
        EXECUTE format('ALTER INDEX %s.%I RENAME TO %I', place, index.relname, regexp_replace(index.relname, '^sends_', 'sends_before_'));
        IF NOT index.indisprimary THEN
            built := built || index.made;
        END IF;
    END LOOP;
    ALTER TABLE sends RENAME TO sends_before;
    CREATE TABLE sends (LIKE sends_before INCLUDING ALL EXCLUDING INDEXES) PARTITION BY RANGE (id);
    ALTER TABLE sends DROP CONSTRAINT sends_before;
    ALTER TABLE sends ADD CONSTRAINT sends_pkey PRIMARY KEY (id);
    FOR n IN 1 .. cardinality(built) LOOP
        EXECUTE built[n]; -- names the table: that is the new one by now
    END LOOP;
    EXECUTE format('ALTER TABLE sends ATTACH PARTITION sends_before FOR VALUES FROM (MINVALUE) TO (%L)', bound);
    ALTER TABLE sends_before DROP CONSTRAINT sends_before;
    FOR given IN
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee, a.privilege_type AS may, a.is_grantable
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a WHERE c.oid = 'sends_before'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON sends TO %s%s', given.may, given.grantee, CASE WHEN given.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;
-- +goose StatementEnd

-- The partitions that there are, and the time that each is for; the first one begins with time.
CREATE OR REPLACE VIEW sendcode_partitions AS
SELECT c.oid AS id, c.relname::text AS name,
       to_timestamp(('x' || left(replace(substring(b.bound FROM $$FROM \('([0-9a-f-]{36})'\)$$), '-', ''), 12))::bit(48)::bigint / 1000.0) AS begins,
       to_timestamp(('x' || left(replace(substring(b.bound FROM $$TO \('([0-9a-f-]{36})'\)$$), '-', ''), 12))::bit(48)::bigint / 1000.0) AS ends
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) b
WHERE i.inhparent = 'sends'::regclass;
GRANT SELECT ON sendcode_partitions TO PUBLIC;

-- Both work as the tables' owner, for whoever is told that he may call them (package audit, rights.go); so the names in them mean
-- what they mean here, whatever is made in other schemas.
-- +goose StatementBegin
DO $do$
BEGIN
PERFORM set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Makes the partitions of this month and of the three that follow, as far as they are not there, and tells the end of the last
-- one. Who calls it has no say in what is made.
CREATE OR REPLACE FUNCTION sendcode_make_partitions() RETURNS timestamptz LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '1s'
AS $$
DECLARE
    goal timestamptz := (date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + interval '4 months') AT TIME ZONE 'UTC';
    last timestamptz;
    next timestamptz;
    name text;
BEGIN
    SELECT max(p.ends) INTO last FROM sendcode_partitions p;
    IF last >= goal THEN
        RETURN last;
    END IF;
    LOCK TABLE sends IN SHARE UPDATE EXCLUSIVE MODE; -- one at a time; nobody who reads or writes waits
    SELECT max(p.ends) INTO last FROM sendcode_partitions p;
    last := coalesce(last, date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC' - interval '32 days') AT TIME ZONE 'UTC'); -- there is none at all
    WHILE last < goal LOOP
        next := (date_trunc('month', last AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
        name := 'sends_' || to_char(last AT TIME ZONE 'UTC', 'YYYY_MM');
        EXECUTE format('CREATE TABLE %I (LIKE sends INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE sends ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, sendcode_lowest_id(last), sendcode_lowest_id(next));
        last := next;
    END LOOP;
    RETURN last;
END $$;
REVOKE ALL ON FUNCTION sendcode_make_partitions() FROM PUBLIC;

-- Drops the oldest partition where all of its rows were logged before an instant, and tells its name; none that is younger than
-- what counts, whoever asks, and none with a row that is under way or has a refund due. It waits for a tenth of a second, since
-- everybody else waits behind it, and fails with lock_not_available.
CREATE OR REPLACE FUNCTION sendcode_drop_partition(before timestamptz) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '100ms'
AS $$
DECLARE
    old    record;
    needed boolean;
BEGIN
    before := least(before, clock_timestamp() - interval '32 days');
    SELECT p.id::regclass AS place, p.name INTO old FROM sendcode_partitions p WHERE p.ends <= before ORDER BY p.ends LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    FOR round IN 1 .. 2 LOOP -- the second time nobody can change it any more
        EXECUTE format('SELECT EXISTS (SELECT FROM %1$s WHERE due_at IS NOT NULL) OR EXISTS (SELECT FROM %1$s WHERE refund_since IS NOT NULL)
                               OR EXISTS (SELECT FROM %1$s WHERE logged_at >= $1)', old.place) INTO needed USING before;
        IF needed THEN
            RETURN NULL;
        END IF;
        IF round = 1 THEN
            LOCK TABLE sends IN ACCESS EXCLUSIVE MODE;
            IF NOT EXISTS (SELECT FROM sendcode_partitions p WHERE p.name = old.name) THEN
                RETURN NULL; -- another replica was first
            END IF;
        END IF;
    END LOOP;
    EXECUTE format('ALTER TABLE sends DETACH PARTITION %s', old.place);
    EXECUTE format('DROP TABLE %s', old.place);
    RETURN old.name;
END $$;
REVOKE ALL ON FUNCTION sendcode_drop_partition(timestamptz) FROM PUBLIC;
END $do$;
-- +goose StatementEnd
SELECT sendcode_make_partitions();

-- Verifications go by their own time, for the sends of a partition are not looked through any more. Built beside the traffic;
-- what an interrupted build left behind goes first.
DROP INDEX CONCURRENTLY IF EXISTS verifications_created;
CREATE INDEX CONCURRENTLY verifications_created ON verifications (created_at);
