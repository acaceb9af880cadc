# shellcheck shell=sh
# shellcheck disable=SC2016,SC2154,SC1007  # the guardian's text is a text; values are filled in
# shellcheck disable=SC2086,SC2015,SC2034,SC3045  # words are split where that is meant; `read -t` is bash's
# shellcheck disable=SC2039,SC2046,SC2053,SC2317
# Background processes: LAUNCH starts one and ends, FOLLOW tells how they go on. Comment lines are dropped; @NAME@ is filled in.
# Each process has a folder @ROOT@/ID: `in` (what its shell reads; gone at once), `log` (its output), `rec` (what its shell says to
# us), `pid` (number, start time, boot id), `exit` (the code, written last).

#=== LAUNCH
umask 077
export PATH
@CHECK@
r=@ROOT@ d=@ROOT@/@ID@
no() { printf 'N %s\n' "$1"; rm -rf -- "$d"; exit 0; }
mkdir -p -- "$r" 2>/dev/null; [ -d "$r" ] && [ ! -h "$r" ] && [ -O "$r" ] && chmod 700 -- "$r" 2>/dev/null || { echo 'N its folder cannot be made there'; exit 0; }
mkdir -- "$d" 2>/dev/null || { echo 'N its folder cannot be made there'; exit 0; }
{ printf %s @INPUT@ && @NUL@; } 2>/dev/null >"$d/in" && : 2>/dev/null >"$d/log" || no 'its files cannot be written there'
# What ended a week ago and was never fetched.
find "$r" -mindepth 2 -maxdepth 2 -name exit -mtime +7 2>/dev/null | while IFS= read -r f; do rm -rf -- "${f%/exit}"; done
# The guardian waits for the process and writes its code down. Signals to all of the process do not end it before that.
s='trap : HUP INT QUIT TERM USR1 USR2 ALRM PIPE; d=$1; shift; cd /; exec <"$d/in"; rm -f "$d/in"; "$@" >"$d/rec" 2>&1; c=$?; rm -f "$d"/s.*; echo "$c" >"$d/exit.new" && mv -f "$d/exit.new" "$d/exit"'
@START@
p=$! t= b=-
[ -r "/proc/$p/stat" ] && { t=$(cat "/proc/$p/stat"); t=${t##*) }; set -- $t; t=${20-}; } 2>/dev/null || t=$(ps -o lstart= -p "$p" 2>/dev/null | tr ' ' _)
[ -r /proc/sys/kernel/random/boot_id ] && IFS= read -r b </proc/sys/kernel/random/boot_id
printf '%s %s %s\n' "$p" "${t:--}" "$b" >"$d/pid"
printf 'P %s %s %s\n' "$p" "${t:--}" "$b"
exit 0

#=== CHECK
[ -r @V@ ] || { printf 'X\n'; exit 0; }

#=== STARTBASH
# Job control gives it a group of its own, and leaves SIGINT as it is.
set -m
QD_PROCESS=@ID@ sh -c "$s" qd "$d" env -i QD_PROCESS=@ID@ "$BASH" --norc --noprofile -c @READER@ bash </dev/null >/dev/null 2>&1 &

#=== STARTSH
# Without job control a shell has its background ignore SIGINT; newer versions of env take that back.
e=; env --default-signal=INT true 2>/dev/null && e='env --default-signal=INT,QUIT'
n=; command -v setsid >/dev/null 2>&1 && n=setsid
QD_PROCESS=@ID@ $n $e sh -c "$s" qd "$d" env -i PATH="$PATH" QD_PROCESS=@ID@ sh -c @READER@ sh </dev/null >/dev/null 2>&1 &

#=== FOLLOW
# A request is one line `ID OFFSET PID START BOOT ..`, answered when there is something to tell, or after a while; `- ID ..` removes
# what was fetched; any line while it waits makes it answer now. Every answer ends with a line of its own.
exec 2>/dev/null
umask 077
set -f
LC_ALL=C; export LC_ALL PATH
r=@ROOT@ b=- full= got= piece=@PIECE@ naps=@NAPS@
[ -r /proc/sys/kernel/random/boot_id ] && IFS= read -r b </proc/sys/kernel/random/boot_id
@NAP@
# When process $1 began, in `t`; nothing when it is not there.
began() {
t=
if [ -r "/proc/$1/stat" ]; then t=$(cat "/proc/$1/stat"); t=${t##*) }; set -- $t; case ${1-Z} in Z|X) t=;; *) t=${20-};; esac
elif [ ! -r /proc/1/stat ]; then t=$(ps -o lstart= -p "$1" | tr ' ' _); fi
}
# Tells of one process. Whether it has ended is looked at before how much it has written.
one() {
e=
if [ -e "$r/$1/exit" ]; then e='exit'
elif [ "$5" != "$b" ]; then e=boot
elif [ "$first" ]; then began "$3"; [ "$t" ] && [ "$t" = "$4" ] || e=gone
else kill -0 "$3" || e=gone; fi
[ "$e" = gone ] && [ -e "$r/$1/exit" ] && e='exit'
if [ "$e" ]; then s=$(wc -c <"$r/$1/log"); s=${s##*[!0-9]}
else s=${sizes%%" $1/log"*}; s=${s##*[!0-9]}; fi
if [ "${s:-0}" -gt "$2" ]; then
n=$((s - $2)); [ "$n" -gt "$piece" ] && n=$piece full=1
printf '\036D @NONCE@ %s %s\n' "$1" "$n"; tail -c "+$(($2 + 1))" "$r/$1/log" | head -c "$n"; got=1
elif [ "$e" ]; then
c=-; [ "$e" = exit ] && IFS= read -r c <"$r/$1/exit"
n=$(wc -c <"$r/$1/rec"); n=${n##*[!0-9]}; n=${n:-0}; [ "$n" -gt 65536 ] && n=65536
printf '\036E @NONCE@ %s %s %s %s\n' "$1" "$e" "${c:--}" "$n"; [ "$n" = 0 ] || head -c "$n" "$r/$1/rec"; got=1
fi
}
while IFS= read -r line; do
[ "$line" ] || continue
set -- $line
if [ "$1" = - ]; then shift; for i; do rm -rf -- "${r:?}/$i"; done; continue; fi
names=; while [ $# -ge 5 ]; do names="$names $1/log"; shift 5; done
first=1 got= k=0
# A steady trickle is told in pieces, not byte by byte.
[ "$full" ] || nap 0.03
full= got=
while :; do
sizes=$(cd "$r" && wc -c $names)
set -- $line
while [ $# -ge 5 ]; do one "$@"; shift 5; done
first=
[ "$got" ] || [ "$k" -ge "$naps" ] && break
case $k in 0) nap 0.05;; 1) nap 0.1;; 2) nap 0.2;; [3-9]) nap 0.5;; *) nap 1;; esac
k=$((k + 1))
done
printf '\036. @NONCE@\n'
done
exit 0

#=== NAPBASH
nap() { IFS= read -r -t "$1" _; case $? in 0) got=1;; 1) exit 0;; esac; }

#=== NAPSH
nap() { sleep "$1" || sleep 1; }
