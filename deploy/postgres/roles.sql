-- This makes the database and its two roles, once, when the volume is empty. Neither role is a superuser. sendcode_owner
-- owns the tables and migrates them. The service works as sendcode_app, which can't change the audit trail.
\set ON_ERROR_STOP on
\set owner_password `cat "$DATABASE_OWNER_PASSWORD_FILE"`
\set app_password `cat "$DATABASE_APP_PASSWORD_FILE"`
CREATE ROLE sendcode_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE sendcode_app LOGIN PASSWORD :'app_password';
CREATE DATABASE sendcode OWNER sendcode_owner;
REVOKE ALL ON DATABASE sendcode FROM PUBLIC;
GRANT CONNECT ON DATABASE sendcode TO sendcode_app;
