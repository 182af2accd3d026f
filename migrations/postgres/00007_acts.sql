-- +goose Up

-- What administrators did. Rows are only added: the trigger holds for whoever is connected, and the role that the service
-- works as has no right to anything else (package audit, rights.go). Who is the database's owner can take both away; so
-- nobody else should know the owner's password.
CREATE TABLE acts (
    id      uuid        NOT NULL PRIMARY KEY, -- version 7
    at      timestamptz NOT NULL,             -- on this database's clock
    who     text        NOT NULL CHECK (who <> ''),
    role    text        NOT NULL,
    network text        NOT NULL,             -- where the request came from
    what    text        NOT NULL CHECK (what <> ''),
    app     text        NOT NULL,
    channel text        NOT NULL,
    purpose text        NOT NULL,
    target  text        NOT NULL,             -- ID of the send or name of the account that it was done to; '' is none
    reason  text        NOT NULL,             -- why, in the administrator's words; names no recipient
    outcome text        NOT NULL CHECK (outcome IN ('begun', 'done', 'failed')),
    detail  text        NOT NULL,
    ends    uuid                              -- the act, begun before, whose outcome this row is
);
CREATE INDEX acts_at ON acts (at, id);

-- On whom. It stands apart from the acts, for a person may have themselves erased and an act may not change: here a row can
-- lose what it says, and nothing else.
CREATE TABLE act_people (
    act       uuid  NOT NULL PRIMARY KEY,
    recipient bytea CHECK (octet_length(recipient) = 16), -- keyed hash; NULL once forgotten
    masked    text  NOT NULL
);
CREATE INDEX act_people_recipient ON act_people (recipient) WHERE recipient IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION sendcode_only_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are only added', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION sendcode_only_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.act = OLD.act AND NEW.masked = '•••' AND (NEW.recipient IS NULL OR NEW.recipient = OLD.recipient) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'rows of % can only be forgotten', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd

CREATE TRIGGER acts_only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON acts FOR EACH STATEMENT EXECUTE FUNCTION sendcode_only_added();
CREATE TRIGGER act_people_only_added BEFORE DELETE OR TRUNCATE ON act_people FOR EACH STATEMENT EXECUTE FUNCTION sendcode_only_added();
CREATE TRIGGER act_people_only_forgotten BEFORE UPDATE ON act_people FOR EACH ROW EXECUTE FUNCTION sendcode_only_forgotten();

-- Also in a session that plays a replica, where other triggers sleep.
ALTER TABLE acts ENABLE ALWAYS TRIGGER acts_only_added;
ALTER TABLE act_people ENABLE ALWAYS TRIGGER act_people_only_added;
ALTER TABLE act_people ENABLE ALWAYS TRIGGER act_people_only_forgotten;
