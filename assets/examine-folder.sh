# shellcheck shell=sh disable=SC2043,SC2015 # there are several folders; `|| true` is meant for both
# Looks at the folders that session files may be kept in (@ROOTS@), up to the first that can be used: each as its path, why it
# cannot be used, whether programs in it cannot be run, free KiB, free files, each with a NUL. Leaves nothing: where a folder is
# not there yet, the nearest above it is tried. @NONCE@ = 16 hex digits
umask 077
LC_ALL=C
export LC_ALL
p=
trap '[ -z "$p" ] || rm -rf -- "$p"' EXIT
last() { printf '%s\n' "$1" | sed -n '1s/.*: //p'; }
for d in @ROOTS@; do
a=$d why='' noexec='' free='' files=''
while [ ! -d "$a" ]; do a=${a%/*}; a=${a:-/}; done
if [ -h "$d" ] || [ -e "$d" ] && [ ! -d "$d" ]; then why='it is no folder'
elif [ -d "$d" ] && [ ! -O "$d" ]; then why='it belongs to somebody else'
else
p=${a%/}/.qd-doctor-@NONCE@
if said=$(mkdir -- "$p" 2>&1); then
said=$(dd if=/dev/zero of="$p/x" bs=65536 count=1 2>&1) || why=$(last "$said")
printf '#!/bin/sh\nexit 0\n' >"$p/y" 2>/dev/null && chmod 700 "$p/y" && { "$p/y" 2>/dev/null; [ "$?" != 126 ] || noexec=noexec; } || true
rm -rf -- "$p"
else
why=$(last "$said")
fi
p=
# shellcheck disable=SC2046 # split into words
set -- $(df -Pk "$a" 2>/dev/null | tail -n 1)
free=${4-}
# shellcheck disable=SC2046 # as above
set -- $(df -Pi "$a" 2>/dev/null | tail -n 1)
files=${4-}
fi
printf '%s\0%s\0%s\0%s\0%s\0' "$d" "$why" "$noexec" "$free" "$files"
[ -n "$why" ] || break
done
exit 0
