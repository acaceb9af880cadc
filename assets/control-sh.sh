# shellcheck shell=sh disable=SC2086 # lists of numbers are split into words
# The control shell where there is no bash (dash, busybox ash): the protocol of control.sh. It forks awk and grep for every look;
# it names no tails, since these shells have no process substitution.
trap '' HUP INT PIPE TERM
LC_ALL=C
exec 2>/dev/null
keep='' noted=''
nap() { sleep "$1" || sleep 1; }
answer() { printf '\036A @NONCE@ %s\n' "$*"; }
# The pids of the arguments, parted by commas.
list() { list=$(IFS=,; echo "${*:--}"); }

# When process $1 began; nothing when it has ended.
began() {
began=''
IFS= read -r s <"/proc/$1/stat" || return
set -- ${s##*) }
case $1 in [RSDTtIPW]) began=${20};; esac
}

# All processes that have not ended, a line each: pid, parent, group, session, start.
table() { cat /proc/[0-9]*/stat | awk '{ pid = $1; sub(/^.*\) /, ""); if ($1 ~ /^[RSDTtIPW]$/) print pid, $2, $3, $4, $20 }'; }

# Everything of the command whose shell is $1, began at $2 (- when unknown), cookie $3: `family`. The session, the group, the
# cookie, and the descent.
members() {
start=$2
[ "$start" = - ] && start=0
table=$(table)
cookies=$(printf '%s\n' "$table" | while read -r p _ _ _ t; do
[ "$t" -ge "$start" ] && { echo "@NONCE@ $p"; tr '\0' '\n' <"/proc/$p/environ"; }
done | awk -v cookie="$3" '$1 == "@NONCE@" { pid = $2 } $0 == cookie { printf "%s ", pid }')
family=$(printf '%s\n' "$table" | awk -v shell="$1" -v start="$start" -v me="$$" -v cookies="$cookies" '
BEGIN { n = split(cookies, list, " "); for (i = 1; i <= n; i++) has[list[i]] = 1 }
{ parent[$1] = $2; group[$1] = $3; session[$1] = $4; began[$1] = $5 }
END {
kin = shell > 1 && !(start > 0 && (shell in began) && began[shell] != start)
for (p in began) if (p != me && began[p] >= start + 0 && ((kin && (p == shell || session[p] == shell || group[p] == shell)) || (p in has))) found[p] = 1
do { more = 0; for (p in parent) if (!(p in found) && (parent[p] in found) && p != me) { found[p] = 1; more = 1 } } while (more)
for (p in found) printf "%s ", p
}')
}

# As in control.sh.
aged() {
began "$a"
read -r up _ </proc/uptime
if [ "$began" ] && [ "$began" -le $(((${up%.*} + 1) * 100 - ${b#?} + 100)) ]; then b=$began; else a=4194304 b=-; fi
}

# Ends the command of shell $1, start $2, cookie $3, grace $4 in ms; see the local backend for the order.
end() {
seen=' ' i=0
while [ $((i += 1)) -le 100 ]; do
members "$1" "$2" "$3"
new=''
for p in $family; do case $seen in *" $p "*) ;; *) new="$new $p" seen="$seen$p ";; esac; done
[ "$new" ] || break
kill -STOP $new
done
kill -TERM $seen
case $seen in *" $1 "*)
kill -CONT "$1"; i=0
while [ $((i += 1)) -le 3 ]; do began "$1"; [ "$began" ] || break; nap 0.1; done;;
esac
kill -CONT $seen
i=0
while [ $((i += 100)) -le "$4" ]; do members "$1" "$2" "$3"; [ "$family" ] || break; nap 0.1; done
i=0
while [ $((i += 1)) -le 50 ]; do
members "$1" "$2" "$3"
[ "$family" ] || break
kill -STOP $family; kill -KILL $family
nap 0.02
done
list $family
}

# As in control.sh.
gone() {
n=0
while members "$2" "$3" "$4"; [ "$family" ]; do
seen=''
for p in $family; do began "$p"; [ "$began" ] && seen="$seen $p:$began"; done
while [ "$seen" ]; do
kill -0 "$$" || exit
n=$((n + 1))
if [ $n -le 10 ]; then nap 1; else nap 5; fi
left=''
for p in $seen; do began "${p%%:*}"; [ "$began" = "${p#*:}" ] && left="$left $p"; done
seen=$left
done
done
answer "$1" ended -
}

while IFS=' ' read -r id verb a b c d; do
case $b in '~'*) aged;; esac
case $verb in
ping) answer "$id" ok;;
keep) keep=1;;
note) began "$a"; [ "$began" ] && noted="$noted $a:$began:$b";;
forget) new=''; for p in $noted; do [ "${p%%:*}" = "$a" ] || new="$new $p"; done; noted=$new;;
family) members "$a" "$b" "$c"; list $family; answer "$id" members "$list - -";;
signal) members "$a" "$b" "$c"; new=''; for p in $family; do kill -"$d" "$p" && new="$new $p"; done; list $new; answer "$id" members "$list - -";;
end) { end "$a" "$b" "$c" "$d"; answer "$id" ended "$list"; } </dev/null &;;
gone) gone "$id" "$a" "$b" "$c" </dev/null &;;
?*) answer "$id" refused "$verb";;
esac
done
exec </dev/null >/dev/null
[ "$keep" ] && exit 0
[ "$noted" ] || exit 0
sleep @LINGER@
for p in $noted; do
a=${p%%:*} b=${p#*:} c=${b#*:} b=${b%%:*}
began "$a"
[ "$began" = "$b" ] && end "$a" "$b" "$c" 2000 &
done
wait
exit 0
