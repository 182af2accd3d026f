-- The months of the rows, as they would be if the service had run all the time: before the first that it made ahead comes one
-- partition for all that is older, which is empty here.
DO $$
DECLARE
    month timestamptz := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC' - interval '91 days') AT TIME ZONE 'UTC';
    after timestamptz;
    until timestamptz;
    name  text;
BEGIN
    DROP TABLE IF EXISTS sends_before;
    SELECT min(begins) INTO until FROM sendcode_partitions;
    WHILE month < until LOOP
        after := (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
        name := 'sends_' || to_char(month AT TIME ZONE 'UTC', 'YYYY_MM');
        EXECUTE format('CREATE TABLE %I (LIKE sends INCLUDING ALL) WITH (fillfactor = 50)', name);
        EXECUTE format('ALTER TABLE sends ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, sendcode_lowest_id(month), sendcode_lowest_id(after));
        month := after;
    END LOOP;
END $$;
