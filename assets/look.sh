# shellcheck shell=sh
# shellcheck disable=SC2086  # words are split where that is meant
# Looks at processes of this account: @PIDS@ (q), or with none those that carry the cookie of a command. Comment lines are dropped.
# Each is told as `\036S NONCE PID PARENT SESSION START COOKIE DAEMON`, then, each behind \037, the name of its session and its
# command line, with \001 for its line ends. The last line says that the answer is whole.

#=== LOOK
exec 2>/dev/null
LC_ALL=C; export LC_ALL PATH
read -r up _ </proc/uptime || { printf '\036N @NONCE@\n'; exit 0; }
l=@PIDS@ w=$l
if [ -z "$l" ]; then
# One look at all of them where grep takes what is behind a NUL, else one at each.
w=$(echo /proc/[0-9]*/environ)
printf 'a\000QD_PROCESS=' | grep -q 'QD_PROCESS=' && w=$(grep -l 'QD_PROCESS=' $w)
fi
set -f
for p in $w; do
p=${p#/proc/} p=${p%/environ}
s=$(cat "/proc/$p/stat") || continue
set -- ${s##*) }
case ${1-Z} in Z|X|x) continue;; esac
c=- d=- n=
IFS='
'
for e in $(tr '\000\n' '\n\001' <"/proc/$p/environ" | grep '^QD_[DPS]'); do
case $e in QD_PROCESS=*) c=${e#*=};; QD_DAEMON=*) d=${e#*=};; QD_SESSION=*) n=${e#*=};; esac
done
unset IFS
[ "$c" = - ] && [ -z "$l" ] && continue
printf '\036S @NONCE@ %s %s %s %s %s %s\037%s\037' "$p" "$2" "$4" "${20}" "${c:--}" "${d:--}" "$n"
tr '\000\n\036\037' ' \001\001\001' <"/proc/$p/cmdline" | head -c 4000
printf '\n'
done
printf '\036. @NONCE@ %s .\n' "$up"
