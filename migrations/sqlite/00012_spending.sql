-- +goose Up

-- As postgres/00012_spending.sql; the period is "2006-01-02".
CREATE TABLE spending (
    account TEXT    NOT NULL,
    period  TEXT    NOT NULL,
    used    INTEGER NOT NULL CHECK (used >= 0),
    PRIMARY KEY (account, period)
) STRICT;

CREATE TABLE embargoes (
    channel   TEXT    NOT NULL,
    recipient BLOB    NOT NULL CHECK (length(recipient) = 16),
    since     INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (recipient, channel)
) STRICT;
