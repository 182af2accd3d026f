#!/bin/sh
# Starts Redis for compose.postgres.yaml, with the one user that the service needs. The configuration goes in by standard input: a
# password among the arguments could be listed by every user of the machine. Further arguments win over it.
set -eu
password=$(cat "$REDIS_PASSWORD_FILE")
exec redis-server - "$@" <<CONFIG
appendonly yes
maxmemory-policy noeviction
user default reset
user sendcode reset on >$password ~sendcode* -@all +eval +evalsha +time +zadd +zcard +zcount +zrange +zremrangebyscore +zscore +pexpireat +pexpiretime +ping +config|get +dbsize +info
CONFIG
