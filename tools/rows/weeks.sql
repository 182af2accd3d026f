-- The weeks of the rows, as they would be if the service had run all the time: before the first that it made ahead comes one
-- partition for all that is older, which is empty here.
DO $$
DECLARE
    week  timestamptz := date_trunc('week', clock_timestamp() AT TIME ZONE 'UTC' - interval '91 days') AT TIME ZONE 'UTC';
    after timestamptz;
    until timestamptz;
    name  text;
BEGIN
    DROP TABLE IF EXISTS sends_before;
    SELECT min(begins) INTO until FROM sendcode_partitions;
    WHILE week < until LOOP
        after := (week AT TIME ZONE 'UTC' + interval '1 week') AT TIME ZONE 'UTC';
        name := 'sends_' || to_char(week AT TIME ZONE 'UTC', 'IYYY_"w"IW');
        EXECUTE format('CREATE TABLE %I (LIKE sends INCLUDING ALL) WITH (fillfactor = 50)', name);
        EXECUTE format('ALTER TABLE sends ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, sendcode_lowest_id(week), sendcode_lowest_id(after));
        week := after;
    END LOOP;
END $$;
