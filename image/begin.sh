#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What must be there before the packages that are not essential are installed. Run by mmdebstrap with the
# image's root as $1.
set -eu
root=$1

# The users of servers, which installation would number in whatever order it comes to them. The package passwd,
# which is not there yet, moves what stands for their passwords.
cat >>"$root/etc/group" <<"END"
ssl-cert:!:101:postgres
postgres:!:103:
mysql:!:104:
redis:!:105:
etcd:!:106:
END
cat >>"$root/etc/passwd" <<"END"
postgres:!:100:103:PostgreSQL administrator:/var/lib/postgresql:/bin/bash
mysql:!:101:104:MariaDB Server:/nonexistent:/bin/false
redis:!:102:105:Redis:/var/lib/redis:/usr/sbin/nologin
etcd:!:103:106:etcd:/var/lib/etcd:/usr/sbin/nologin
END

# Installing PostgreSQL makes a cluster, and with it random identifiers, unless it is told not to.
mkdir -p "$root/etc/postgresql-common"
printf 'create_main_cluster = false\n' >"$root/etc/postgresql-common/createcluster.conf"
