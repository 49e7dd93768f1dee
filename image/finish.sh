#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the root image a function of its package versions alone: removes what package installation
# writes at random, by date, or by the machine it ran on. Run by mmdebstrap with the image's root as $1.
set -eu
root=$1

# Identities and secrets made up during installation. An empty machine-id is what a first boot fills in.
: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id" "$root/var/lib/systemd/random-seed"
rm -f "$root/etc/ssl/private/ssl-cert-snakeoil.key" "$root/etc/ssl/certs/ssl-cert-snakeoil.pem"
find "$root/etc/ssl/certs" -xtype l -delete 2>/dev/null || true
rm -f "$root"/etc/ssh/ssh_host_*

# Logs, caches, backups, package lists: dated, and of no use in a read-only image.
find "$root/var/log" "$root/var/cache" "$root/var/lib/apt" "$root/var/backups" -type f -delete
rm -f "$root"/var/lib/dpkg/*-old "$root"/etc/*- "$root/etc/.pwd.lock" "$root/var/lib/systemd/catalog/database"
rm -rf "$root"/tmp/* "$root"/var/tmp/* "$root"/run/*
rm -f "$root/usr/lib/udev/hwdb.bin"
find "$root" -xdev -name '__pycache__' -type d -prune -exec rm -rf {} +

# zfsutils-linux makes up a host's number, which every pool's label carries; zero would mean "none".
printf 'lab0' >"$root/etc/hostid"
# mdadm lists the arrays of the building machine, and the date.
sed -i -E '/^ARRAY /d; /auto-generated/d; /^# definitions of existing MD arrays/d' "$root/etc/mdadm/mdadm.conf"

# MariaDB makes a database with random identifiers and the building machine's name; a trial makes its own.
find "$root/var/lib/mysql" -mindepth 1 -delete

# mmdebstrap copied these from the building machine.
rm -f "$root/etc/apt/sources.list" "$root/etc/apt/preferences.d/strata" "$root"/etc/apt/apt.conf.d/99mmdebstrap
printf '127.0.0.1 localhost lab\n::1 localhost\n' >"$root/etc/hosts"
printf 'lab\n' >"$root/etc/hostname"
: >"$root/etc/resolv.conf"

# The date of the last change of a password is the date of installation.
sed -i -E 's/^([^:]*:[^:]*:)[0-9]+:/\120000:/' "$root/etc/shadow"
