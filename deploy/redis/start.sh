#!/bin/sh
# Starts Redis for compose.postgres.yaml, with the one user that the service needs. Redis reads the configuration from standard input,
# because every user of the machine could list a password among the arguments. Arguments that you add win over the configuration.
set -eu
password=$(cat "$REDIS_PASSWORD_FILE")
exec redis-server - "$@" <<CONFIG
appendonly yes
maxmemory-policy noeviction
user default reset
user sendcode reset on >$password ~sendcode* -@all +eval +evalsha +time +zadd +zcard +zcount +zrange +zremrangebyscore +zscore +pexpireat +pexpiretime +ping +config|get +dbsize +info
CONFIG
