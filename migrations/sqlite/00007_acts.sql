-- +goose Up

-- As postgres/00007_acts.sql, where each choice is explained. A file has no roles: here the triggers hold alone.
CREATE TABLE acts (
    id      TEXT    NOT NULL PRIMARY KEY,
    at      INTEGER NOT NULL,
    who     TEXT    NOT NULL CHECK (who <> ''),
    role    TEXT    NOT NULL,
    network TEXT    NOT NULL,
    what    TEXT    NOT NULL CHECK (what <> ''),
    app     TEXT    NOT NULL,
    channel TEXT    NOT NULL,
    purpose TEXT    NOT NULL,
    target  TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    outcome TEXT    NOT NULL CHECK (outcome IN ('begun', 'done', 'failed')),
    detail  TEXT    NOT NULL,
    ends    TEXT
) STRICT;
CREATE INDEX acts_at ON acts (at, id);

CREATE TABLE act_people (
    act       TEXT NOT NULL PRIMARY KEY,
    recipient BLOB CHECK (length(recipient) = 16),
    masked    TEXT NOT NULL
) STRICT;
CREATE INDEX act_people_recipient ON act_people (recipient) WHERE recipient IS NOT NULL;

-- An insert that replaces deletes without a DELETE trigger, unless the connection asks for recursive triggers.
-- +goose StatementBegin
CREATE TRIGGER acts_added_once BEFORE INSERT ON acts WHEN EXISTS (SELECT 1 FROM acts WHERE id = NEW.id)
BEGIN SELECT RAISE(IGNORE); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER acts_not_changed BEFORE UPDATE ON acts
BEGIN SELECT RAISE(ABORT, 'rows of acts are only added'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER acts_not_deleted BEFORE DELETE ON acts
BEGIN SELECT RAISE(ABORT, 'rows of acts are only added'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER act_people_added_once BEFORE INSERT ON act_people WHEN EXISTS (SELECT 1 FROM act_people WHERE act = NEW.act)
BEGIN SELECT RAISE(IGNORE); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER act_people_only_forgotten BEFORE UPDATE ON act_people
WHEN NOT (NEW.act = OLD.act AND NEW.masked = '•••' AND (NEW.recipient IS NULL OR NEW.recipient IS OLD.recipient))
BEGIN SELECT RAISE(ABORT, 'rows of act_people can only be forgotten'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER act_people_not_deleted BEFORE DELETE ON act_people
BEGIN SELECT RAISE(ABORT, 'rows of act_people are only added'); END;
-- +goose StatementEnd
