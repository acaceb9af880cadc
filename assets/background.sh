# shellcheck shell=sh
# shellcheck disable=SC2016,SC2154,SC1007  # the guardian's text is a text; values are filled in
# shellcheck disable=SC2086,SC2015,SC2034,SC3045  # words are split where that is meant; `read -t` is bash's
# shellcheck disable=SC2039,SC2046,SC2053,SC2317,SC3013,SC2013,SC2094,SC2181,SC2030,SC2031,SC2034
# Background processes: LAUNCH starts one and ends, FOLLOW tells how they go on. Comment lines are dropped; @NAME@ is filled in.
# Each process has a folder @ROOT@/ID: `in` (what its shell reads; gone at once), `log` (its output), `rec` (what its shell says to
# us), `pid` (number, start time, boot id), `exit` (the code, written last; `late` behind it when its time was over), `stdin` (a file,
# or a FIFO while others may write; `end` is where its end is asked for, `over` says that it was), `hole` (three numbers: what stands
# before the first, and from the second up to the third, is not in the log any more), `by` (the process that follows it).

#=== LAUNCH
umask 077
export PATH
@CHECK@
r=@ROOT@ d=@ROOT@/@ID@
no() { printf 'N %s\n' "$1"; rm -rf -- "$d"; exit 0; }
@FOLDER@
{ printf %s @INPUT@ && @NUL@; } 2>/dev/null >"$d/in" && : 2>/dev/null >"$d/log" || no 'its files cannot be written there'
@FIFO@
# What ended a week ago and was never fetched, and what was never begun.
find "$r" -mindepth 2 -maxdepth 2 -name exit -mtime +7 2>/dev/null | while IFS= read -r f; do rm -rf -- "${f%/exit}"; done
find "$r" -mindepth 1 -maxdepth 1 -type d -mtime +7 2>/dev/null | while IFS= read -r f; do [ -e "$f/pid" ] || rm -rf -- "$f"; done
find "$r" -maxdepth 1 -name 'seen.*' -mtime +7 -exec rm -f -- {} + 2>/dev/null
b=- scope=
[ -r /proc/sys/kernel/random/boot_id ] && IFS= read -r b </proc/sys/kernel/random/boot_id
s=@GUARDIAN@
@SCOPE@
start() {
@START@
}
start
# systemd-run becomes the guardian, with the same number, or fails: then nothing was begun, and it is begun without a scope.
if [ "$scope" ]; then
k=0; while [ -e "$d/in" ] && [ "$k" -lt 200 ] && kill -0 "$p" 2>/dev/null; do sleep 0.01 || sleep 1; k=$((k + 1)); done
if [ -e "$d/in" ]; then
kill -KILL "$p"; wait "$p"
[ -e "$d/in" ] || no 'it was ended at its start'
printf '%s\n' "$b" >"$r/noscope"; scope=; start
fi
fi 2>/dev/null
t=
[ -r "/proc/$p/stat" ] && { t=$(cat "/proc/$p/stat"); t=${t##*) }; set -- $t; t=${20-}; } 2>/dev/null || t=$(ps -o lstart= -p "$p" 2>/dev/null | tr ' ' _)
printf '%s %s %s\n' "$p" "${t:--}" "$b" >"$d/pid.new" && mv -f "$d/pid.new" "$d/pid"
@WHERE@
printf 'P %s %s %s\n' "$p" "${t:--}" "$b"
exit 0

#=== WHERE
# The session's directory is gone: it starts in the nearest above it, as every command does.
{ [ -d @DIR@ ] && [ -x @DIR@ ]; } || { w=@DIR@; until [ -d "$w" ] && [ -x "$w" ]; do w=${w%/*}; [ "$w" ] || w=/; done; printf '\036D %s\n' "$w"; }

#=== CHECK
[ -r @V@ ] || { printf 'X\n'; exit 0; }

#=== FOLDER
mkdir -p -- "$r" 2>/dev/null; [ -d "$r" ] && [ ! -h "$r" ] && [ -O "$r" ] && chmod 700 -- "$r" 2>/dev/null || { echo 'N its folder cannot be made there'; exit 0; }
mkdir -- "$d" 2>/dev/null || { echo 'N its folder cannot be made there'; exit 0; }

#=== FIFO
mkfifo -- "$d/stdin" "$d/end" 2>/dev/null || no 'a FIFO for its stdin cannot be made there'

#=== SCOPE
# A scope of its own: what a process does with memory hits it alone, and a logout does not end it. An account's own manager ends with
# its last login unless the account lingers, and would take the process with it: then there is no scope.
if [ -d @SYSTEMD@ ] && command -v systemd-run >/dev/null 2>&1; then
IFS= read -r t 2>/dev/null <"$r/noscope" || t=
u=$(id -u) m=
[ "$u" = 0 ] || { m=--user; [ -S "/run/user/$u/bus" ] && [ -e "/var/lib/systemd/linger/$(id -un)" ] || t=$b; }
[ "$t" = "$b" ] || scope="env XDG_RUNTIME_DIR=/run/user/$u systemd-run $m --scope --quiet --collect --unit=qd-@ID@"
fi

#=== STARTBASH
# Job control gives it a group of its own, and leaves SIGINT as it is.
set -m
QD_PROCESS=@ID@ $scope "$BASH" --norc --noprofile -c "$s" qd "$d" @HOW@ env -i QD_PROCESS=@ID@ "$BASH" --norc --noprofile -c @READER@ bash </dev/null >/dev/null 2>&1 &
p=$!

#=== STARTSH
# Without job control a shell has its background ignore SIGINT for good; newer versions of env take that back. Where they do not, it is
# started in the foreground, as one end of a pipe, and its other end ends the shell that would wait for it.
n=; command -v setsid >/dev/null 2>&1 && n=setsid
if env --default-signal=INT true 2>/dev/null; then
QD_PROCESS=@ID@ $n env --default-signal=INT,QUIT $scope sh -c "$s" qd "$d" @HOW@ env -i PATH="$PATH" QD_PROCESS=@ID@ sh -c @READER@ sh </dev/null >/dev/null 2>&1 &
p=$!
else
( me=$(exec sh -c 'echo $PPID')
QD_PROCESS=@ID@ $n $scope sh -c "echo \$\$; exec >/dev/null 2>&1; $s" qd "$d" @HOW@ env -i PATH="$PATH" QD_PROCESS=@ID@ sh -c @READER@ sh </dev/null 2>/dev/null | { IFS= read -r p; echo "$p" >"$d/pid.new"; kill -KILL "$me"; } ) 2>/dev/null
IFS= read -r p <"$d/pid.new"
fi

#=== GUARDIAN
# Waits for the process and writes its code down. Signals to all of the process do not end it before that. $1 is the folder, $2 `open`
# when others may write to the stdin, $3 its time in seconds, $4 and $5 the cap of its log and what is kept behind that; - for none.
trap : HUP INT QUIT TERM USR1 USR2 ALRM PIPE
d=$1 open=$2 limit=$3 cap=$4 seg=$5 helpers=
shift 5
cd /
exec <"$d/in"
rm -f "$d/in"
# Helpers outlive every signal to the process, and end with us: what they wait on has no writer then.
if [ "$limit$cap" != -- ] && mkfifo "$d/k"; then exec 9<>"$d/k" 8<"$d/k"; rm -f "$d/k"; else limit=- cap=-; fi
helper() { trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE; exec 9>&- 4<&- </dev/null >/dev/null 2>&1; }
# Naps $1 seconds; false when we have ended.
if [ "${BASH_VERSION-}" ]; then nap() { IFS= read -r -t "$1" x <&8; [ $? -gt 128 ]; }
elif timeout -s KILL 5 true; then nap() { timeout -s KILL "${1%.*}" cat <&8; [ $? != 0 ]; }
else nap() { sleep "${1%.*}"; kill -0 "$$"; }
fi
if [ "$open" = open ]; then
# One of them holds the stdin open until its end is asked for, and then until something has it to see the end.
exec 7<>"$d/stdin" 5>"$d/stdin" 6<>"$d/end" 4<"$d/end"
exec 7>&-
( trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE; exec 9>&- 8<&- 6>&- </dev/null >/dev/null 2>&1; IFS= read -r x <&4 && exec 3>"$d/stdin" ) &
helpers="$helpers $!"
exec 5>&- 4<&-
fi
if [ "$cap" != - ]; then
( helper; exec 6>&-
@HOLE@
old=0 t=60
# No event tells that a file has grown: it is looked at once a minute, more often while it grows fast.
while nap "$t"; do
s=$(size "$d/log"); t=60
[ "${s:-0}" -gt "$old" ] && t=15 && [ $((s - old)) -gt "$seg" ] && t=3
old=${s:-0}
IFS= read -r x <"$d/by" && kill -0 "$x" || trim "$d" 0 "$old"
done ) &
helpers="$helpers $!"
fi
if [ "$limit" != - ]; then
( helper; exec 6>&-; read -r me x </proc/self/stat
# All that carries the cookie or is in our group, but for us and our helpers, in `m`.
members() {
m=
for p in $(cd /proc && grep -l "QD_PROCESS=${d##*/}" [0-9]*/environ; ps -A -o pid= -o pgid= | while read -r p g; do [ "$g" != "$$" ] || echo "$p"; done); do
p=${p%%/*}
case " $$ $me $helpers $m " in *" $p "*) ;; *) kill -0 "$p" && m="$m $p";; esac
done
}
nap "$limit" || exit
: >"$d/late"
members; kill -TERM $m; kill -CONT $m
k=0; while members; [ "$m" ] && [ "$k" -lt 20 ]; do sleep 0.1 || sleep 1; k=$((k + 1)); done
k=0; while [ "$m" ] && [ "$k" -lt 20 ]; do kill -KILL $m; sleep 0.1 || sleep 1; members; k=$((k + 1)); done
) &
fi
# What is left to run of the machine's memory goes to others first; we do not.
( exec 9>&- 8<&- 6>&-; { echo 300 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$@" ) >"$d/rec" 2>&1
c=$?
rm -f "$d"/s.*
[ -e "$d/late" ] && c="$c late"
# Whoever waits for something to read the stdin goes on.
[ "$open" = open ] && exec 7<>"$d/stdin"
echo "$c" >"$d/exit.new" && mv -f "$d/exit.new" "$d/exit"

#=== HOLE
# The size of file $1. `wc` reads all of it on some machines.
if stat -c %s / >/dev/null 2>&1; then size() { stat -c %s "$1"; }; else size() { wc -c <"$1"; }; fi
# Notes that bytes $2..$3 and $4..$5 of the log in folder $1 are not there any more; then they are given back to the disk. What is
# read from there on has looked at the note.
punch() {
printf '%s %s %s\n' "$2" "$3" "$4" >"$1/hole.new" && mv -f "$1/hole.new" "$1/hole" && fallocate -p -o "$5" -l "$(($6 - $5))" "$1/log"
}
# Lets go of the middle of the log in folder $1, of which $2 bytes were fetched and $3 are there, when that is over the cap.
trim() {
a=$cap; [ "$2" -gt "$a" ] && a=$2
[ "$3" -gt "$((a + seg + seg))" ] || return
command -v fallocate >/dev/null || return
g=0 f=0 t_=0; read -r g f t_ <"$1/hole" || g=0 f=0 t_=0
z=$(($3 - seg))
# What was noted before is behind the reader, or goes on.
if [ "$t_" -gt "$f" ] && [ "$a" -ge "$f" ] && [ "$a" -lt "$t_" ]; then a=$f; elif [ "$2" -ge "$t_" ] && [ "$t_" -gt "$g" ]; then g=$t_; fi
punch "$1" "$g" "$a" "$z" "$a" "$z"
}

#=== UPLOAD
# Takes what is to be the stdin of a process: all that follows on ours.
umask 077
r=@ROOT@ d=@ROOT@/@ID@
@FOLDER@
cat >"$d/stdin" && printf 'U %s\n' "$(wc -c <"$d/stdin")" || { rm -rf -- "$d"; echo 'N its stdin cannot be written there'; }
exit 0

#=== FOLDERTHERE
[ -d "$d" ] || { echo 'N its folder is gone'; exit 0; }

#=== SEND
# Writes to an open stdin; waits until it has all of it. Says what became of it.
trap '' PIPE
d=@ROOT@/@ID@
{
[ -p "$d/stdin" ] && [ ! -e "$d/over" ] && [ ! -e "$d/exit" ] || { printf 'O\n'; exit 0; }
@WRITE@
@END@
} 2>/dev/null
printf 'W\n'
exit 0

#=== WRITE
{ @DATA@; } >"$d/stdin" || { printf 'O\n'; exit 0; }

#=== END
: >"$d/over"; echo >"$d/end"

#=== FOLLOW
# A request is one line `ID OFFSET PID START BOOT KEPT ..`, answered when there is something to tell, or after a while; what stands
# before KEPT is safe with the daemon. `- ID ..` removes what was fetched; any line while it waits makes it answer now. Every answer
# ends with a line of its own. While nothing happens nothing is started: the shell looks at the files itself.
exec 2>/dev/null
umask 077
set -f
LC_ALL=C; export LC_ALL PATH
r=@ROOT@ b=- full= got= piece=@PIECE@ cap=@CAP@ seg=@SEG@ step=@STEP@ seen=@ROOT@/seen.$$ k=0 n=0 keep=@KEEP@ naps=@NAPS@
[ -r /proc/sys/kernel/random/boot_id ] && IFS= read -r b </proc/sys/kernel/random/boot_id
trap 'rm -f "$seen"' EXIT
@NAP@
@HOLE@
# Gives $3 bytes of file $1 from byte $2 on, which are there.
if [ "$(printf abcd | dd bs=16 iflag=skip_bytes,count_bytes skip=1 count=2)" = bc ]
then bytes() { dd if="$1" bs=131072 iflag=skip_bytes,count_bytes skip="$2" count="$3"; }
else bytes() { tail -c "+$(($2 + 1))" "$1" | head -c "$3"; }
fi
# The sizes of files, each before its name.
if stat -c '%s %n' / >/dev/null; then sizes() { stat -c '%s %n' "$@"; }; else sizes() { wc -c "$@"; }; fi
# When process $1 began, in `t`; nothing when it is not there.
began() {
t=
if [ -r "/proc/$1/stat" ]; then t=$(cat "/proc/$1/stat"); t=${t##*) }; set -- $t; case ${1-Z} in Z|X) t=;; *) t=${20-};; esac
elif [ ! -r /proc/1/stat ]; then t=$(ps -o lstart= -p "$1" | tr ' ' _); fi
}
# Whether process $1, which began at $2, is gone: one that nobody has collected is, and so is one whose number is another's now.
gone() {
if IFS= read -r y <"/proc/$1/stat"; then y=${y##*) }; set -- "$1" "$2" $y; case ${3-Z} in Z|X) return 0;; esac; [ "${22-}" != "$2" ]
else [ -r /proc/1/stat ] || ! kill -0 "$1"; fi
}
# Whether process $1 has ended, in `e`. It is looked at before how much it has written. One that was seen in time is known by its
# number from then on.
ended() {
e=
if [ -e "$1/exit" ]; then e='exit'
elif [ "$5" != "$b" ]; then e=boot
else
eval "x=\${k_$1-}"
if [ "$x" ]; then gone "$3" "$4" && e=gone
else began "$3"; [ "$t" ] && [ "$t" = "$4" ] || e=gone; eval "k_$1=1"; echo "$$" >"$1/by"; fi
[ "$e" = gone ] && [ -e "$1/exit" ] && e='exit'
fi
}
# Tells of one process.
one() {
ended "$@"
if [ "$e" ]; then s=$(size "$1/log"); s=${s##*[!0-9]}; else eval "s=\${s_$1-}"; fi
g=0 f=0 u=0
[ "${s:-0}" -gt "$2" ] || [ "$e" ] || return
[ -e "$1/hole" ] && { read -r g f u <"$1/hole" || g=0 f=0 u=0; }
if [ "$6" -ge "$((g + step + step))" ]; then
# What was fetched is given back to the disk in steps.
x=$g g=$(($6 - step)); [ "$g" -ge "$u" ] && f=0 u=0
command -v fallocate >/dev/null && punch "$1" "$g" "$f" "$u" "$x" "$g"
fi
if [ "${s:-0}" -gt "$2" ]; then
if [ "$2" -lt "$g" ]; then printf '\036H @NONCE@ %s %s\n' "$1" "$((g - $2))"; got=1; return; fi
if [ "$2" -ge "$f" ] && [ "$2" -lt "$u" ]; then printf '\036H @NONCE@ %s %s\n' "$1" "$((u - $2))"; got=1; return; fi
n=$((s - $2)); [ "$n" -gt "$piece" ] && n=$piece full=1
[ "$2" -lt "$f" ] && [ "$n" -gt "$((f - $2))" ] && n=$((f - $2)) full=1
printf '\036D @NONCE@ %s %s\n' "$1" "$n"; bytes "$1/log" "$2" "$n"; got=1
trim "$1" "$(($2 + n))" "$s"
elif [ "$e" ]; then
c=- w=; [ "$e" = 'exit' ] && read -r c w <"$1/exit" && [ "$w" = late ] && e=late
n=$(size "$1/rec"); n=${n:-0}; [ "$n" -gt 65536 ] && n=65536
printf '\036E @NONCE@ %s %s %s %s\n' "$1" "$e" "${c:--}" "$n"; [ "$n" = 0 ] || head -c "$n" "$1/rec"; got=1
fi
}
# Whether nothing was written since the note was made, and nothing has ended. One that ended without a word is noticed a little later.
quiet() {
for x in $names; do [ "$x" -ot "$seen" ] || return 1; done
for x in $ends; do [ -e "$x" ] && return 1; done
[ $((k % 4)) = 0 ] || return 0
for x in $pids; do gone "${x%%:*}" "${x#*:}" && return 1; done
return 0
}
while IFS= read -r line; do
[ "$line" ] || continue
set -- $line
cd "$r" || :
if [ "$1" = - ]; then shift; for i; do rm -rf -- "${r:?}/$i"; done; continue; fi
names= ends= pids=; while [ $# -ge 6 ]; do names="$names $1/log" ends="$ends $1/exit" pids="$pids $3:$4"; shift 6; done
# A steady trickle is told in pieces, not byte by byte. What hurries us meanwhile counts for this answer.
[ "$got$full$keep" ] && k=0
first=1 got= i=0
[ "$full" ] || nap 0.03
full=
while :; do
if [ "$first" ] || ! quiet; then
: >"$seen"
for x in $(sizes $names); do case $x in */log) eval "s_${x%/log}=$n";; *) n=$x;; esac; done
set -- $line
while [ $# -ge 6 ]; do one "$1" "$2" "$3" "$4" "$5" "$6"; shift 6; done
fi
first=
[ "$got" ] || [ "$i" -ge "$naps" ] && break
case $k in [0-3]) nap 0.05;; ?|1?) nap 0.1;; 2?|3?) nap 0.2;; *) nap 0.5;; esac
k=$((k + 1)) i=$((i + 1))
done
printf '\036. @NONCE@\n'
done
exit 0

#=== NAPBASH
nap() { IFS= read -r -t "$1" _; case $? in 0) got=1;; 1) exit 0;; esac; }

#=== NAPSH
nap() { sleep "$1" || sleep 1; }
