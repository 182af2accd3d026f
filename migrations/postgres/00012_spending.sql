-- +goose Up

-- What text messages have cost in a period, by what a cap looks at. One statement adds to it and looks at the cap, so that
-- parallel sends never pass it (package audit, spending.go). Rows of periods that are over are small, and a part of the record.
CREATE TABLE spending (
    account text   NOT NULL,
    period  date   NOT NULL, -- its first day, in UTC
    used    bigint NOT NULL CHECK (used >= 0), -- millionths of the currency
    PRIMARY KEY (account, period)
);

-- Recipients of whom a carrier said that it takes nothing more for them for a while.
CREATE TABLE embargoes (
    channel   text        NOT NULL,
    recipient bytea       NOT NULL CHECK (octet_length(recipient) = 16),
    since     timestamptz NOT NULL,
    until     timestamptz NOT NULL,
    PRIMARY KEY (recipient, channel)
);
