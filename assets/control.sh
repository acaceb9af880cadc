# shellcheck shell=bash disable=SC2015 # `|| continue` is meant for both
# The control shell (bash >= 4.1): looks after the processes of other commands of this account, with builtins only. One request
# a line on stdin, `ID VERB ARGUMENT..`; answers on stdout, `\036A NONCE ID ..`. @NONCE@ = 16 hex digits, @LINGER@ = seconds.
# The daemon drops comment lines. Sent as the set-up of an ordinary start, so no user's function or alias exists here.
trap '' HUP INT PIPE TERM
set -f
LC_ALL=C
exec 2>/dev/null
declare -A noted=() parent=() group=() session=() began=() family=() ending=() tails=()
keep='' mine=$$
# A pipe that we hold both ends of: reading it with a limit is a sleep without a fork.
exec {nap}<> <(:) || nap=
nap() { if [[ $nap ]]; then read -r -t "$1" -u "$nap"; else sleep "$1"; fi; }
now() { local t; read -r t _ </proc/uptime; now=$((10#${t/./})); }
answer() { printf '\036A @NONCE@ %s\n' "$*"; }

# The fields of process $1 from its state on, in `stat`. A name may hold newlines and parentheses: what counts stands after the
# last ") " of the last line. Cut short first: patterns and words over a whole line cost more than all the rest.
stat_of() {
local lines s name
stat=()
mapfile -t lines <"/proc/$1/stat" && ((${#lines[@]})) || return
s=${lines[${#lines[@]}-1]} name=${s:0:80}
# shellcheck disable=SC2206 # split into words; names are not expanded (set -f)
stat=(${name##*) }${s:80:160})
[[ ${stat[0]-} == [RSDTtIPW] && ${stat[19]-} ]]
}

# The processes that began at $1 or later, without what has ended: nothing older can belong to a command. As stat_of, in line:
# this is done for every process of the machine.
table() {
local d p all lines s name since=$1
parent=() group=() session=() began=()
set +f
all=(/proc/[0-9]*)
set -f
for d in "${all[@]}"; do
mapfile -t lines <"$d/stat" && ((${#lines[@]})) || continue
s=${lines[${#lines[@]}-1]} name=${s:0:80}
# shellcheck disable=SC2086 # as above
set -- ${name##*) }${s:80:160}
((${20:-0} < since)) && continue
[[ $1 == [RSDTtIPW] ]] || continue
p=${d#/proc/}
parent[$p]=$2 group[$p]=$3 session[$p]=$4 began[$p]=${20}
done
}

# Whether the environment of process $1 holds the cookie $2.
has_cookie() {
local e x
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then
mapfile -d '' -t e <"/proc/$1/environ" || return
else
e=(); while IFS= read -r -d '' x; do e+=("$x"); done <"/proc/$1/environ"
fi
((${#e[@]})) || return
printf -v x '%s\001' "${e[@]}"
[[ $'\001'$x == *$'\001'"$2"$'\001'* ]]
}

# Everything of the command whose shell is $1, began at $2 (- when unknown), cookie $3.
members() {
local p more s=$2
[[ $s == - ]] && { s=${noted[$1]-}; s=${s%% *}; }
: "${s:=0}"
table "$s"
family=()
# A number that somebody else has now is no longer anybody's session or group.
local kin=1
(($1 < 2)) && kin=''
[[ $s != 0 && ${began[$1]-} && ${began[$1]} != "$s" ]] && kin=''
for p in "${!began[@]}"; do
((p == mine || p == BASHPID)) && continue
if [[ $kin ]] && ((p == $1 || session[$p] == $1 || group[$p] == $1)) || has_cookie "$p" "$3"; then family[$p]=1; fi
done
more=1
while [[ $more ]]; do
more=''
for p in "${!parent[@]}"; do
[[ ${family[${parent[$p]}]-} && ! ${family[$p]-} && $p != "$mine" && $p != "$BASHPID" ]] && family[$p]=1 more=1
done
done
}

# What of the family is about to end by itself, and what of that still writes to the command's output.
classify() {
local p o f d n k v w r more
w=() r=() ending=() tails=()
set +f
for p in "${!family[@]}"; do
[[ -r /proc/$p/fd ]] || continue
n=0
for d in /proc/"$p"/fd/*; do
[[ -e $d || -L $d ]] || continue
n=1
[[ -p $d || -S $d ]] || continue
f=${d##*/} v=
while read -r k v; do [[ $k == flags: ]] && break; done <"/proc/$p/fdinfo/$f"
[[ $v ]] || continue
((8#$v & 3)) && w+=("$p $f")
(((8#$v & 3) != 1)) && r+=("$p $f")
done
[[ $n == 1 ]] || ending[$p]=1
done
set -f
more=1
while [[ $more ]]; do
more=''
for p in "${!family[@]}"; do
[[ ! ${ending[$p]-} && -p /proc/$p/fd/0 ]] || continue
held /proc/"$p"/fd/0 "$p" ending "${w[@]}" && continue
at_end "/proc/$p/fd/0" && ending[$p]=1 more=1
done
done
# Output that nobody of the family reads leads out: to the channel of the command.
for p in "${!ending[@]}"; do
[[ -p /proc/$p/fd/1 || -S /proc/$p/fd/1 ]] && ! held /proc/"$p"/fd/1 "$p" '' "${r[@]}" && tails[$p]=1
done
more=1
while [[ $more ]]; do
more=''
for p in "${!ending[@]}"; do
[[ ! ${tails[$p]-} ]] || continue
for o in "${!tails[@]}"; do [[ /proc/$p/fd/1 -ef /proc/$o/fd/0 ]] && tails[$p]=1 more=1; done
done
done
}

# Whether one of the ends "PID FD" in $4.. is the pipe $1, leaving out process $2 and, when $3 is `ending`, what is ending.
held() {
local pipe=$1 but=$2 which=$3 e
shift 3
for e; do
[[ ${e% *} == "$but" || $which && ${ending[${e% *}]-} ]] && continue
[[ $pipe -ef /proc/${e% *}/fd/${e#* } ]] && return
done
return 1
}

# Whether reading the pipe $1 would not wait: it has no writer any more, or its last bytes are still in it.
at_end() { local e; exec {e}<"$1" || return 1; read -r -t 0 -u "$e"; local is=$?; exec {e}<&-; return "$is"; }

# A command of which no more is known than the number of its shell, and that this began N ticks ago or earlier (b = ~N): when
# that is another's by now, as after a restart of the machine, only the cookie tells (no process has the number that a is then).
aged() { now; if stat_of "$a" && ((stat[19] <= now - ${b#?} + 100)); then b=${stat[19]}; else a=4194304 b=-; fi; }

list() { local IFS=,; list="${*:--}"; }

# Ends the command of shell $1, start $2, cookie $3, grace $4 in ms; see the local backend for the order.
end() {
local p i new until
local -A seen=()
for ((i = 0; i < 100; i++)); do
members "$1" "$2" "$3"
new=(); for p in "${!family[@]}"; do [[ ${seen[$p]-} ]] || { new+=("$p"); seen[$p]=1; }; done
((${#new[@]})) || break
kill -STOP "${new[@]}"
done
((${#seen[@]})) && kill -TERM "${!seen[@]}"
[[ ${seen[$1]-} ]] && { kill -CONT "$1"; for ((i = 0; i < 30; i++)); do stat_of "$1" || break; nap 0.01; done; }
((${#seen[@]})) && kill -CONT "${!seen[@]}"
now; until=$((now + $4 / 10))
while now; members "$1" "$2" "$3"; ((${#family[@]} && now < until)); do nap 0.02; done
for ((i = 0; i < 50; i++)); do
members "$1" "$2" "$3"
((${#family[@]})) || break
kill -STOP "${!family[@]}"; kill -KILL "${!family[@]}"
nap 0.02
done
list "${!family[@]}"
}

# Answers $1 when nothing is left of the command of shell $2, start $3, cookie $4. All processes are looked at only when those
# that were seen have ended. Goes with the control shell.
gone() {
local p n=0
local -A seen=()
while members "$2" "$3" "$4"; ((${#family[@]})); do
for p in "${!family[@]}"; do seen[$p]=${began[$p]}; done
while :; do
for p in "${!seen[@]}"; do stat_of "$p" && [[ ${stat[19]} == "${seen[$p]}" ]] || unset -v "seen[$p]"; done
((${#seen[@]})) || break
kill -0 "$mine" || exit
nap $((n++ < 10 ? 1 : 5))
done
done
answer "$1" ended -
}

while IFS=' ' read -r id verb a b c d; do
[[ $b == '~'* ]] && aged
case $verb in
ping) answer "$id" ok;;
keep) keep=1;;
note) stat_of "$a" && noted[$a]="${stat[19]} $b";;
forget) unset -v "noted[$a]";;
family) members "$a" "$b" "$c"; classify; list "${!family[@]}"; s=$list; list "${!ending[@]}"; s+=" $list"; list "${!tails[@]}"; answer "$id" members "$s $list";;
signal) members "$a" "$b" "$c"; for p in "${!family[@]}"; do kill -"$d" "$p" || unset -v "family[$p]"; done; list "${!family[@]}"; answer "$id" members "$list - -";;
end) { end "$a" "$b" "$c" "$d"; answer "$id" ended "$list"; } </dev/null &;;
gone) gone "$id" "$a" "$b" "$c" </dev/null &;;
*) answer "$id" refused "$verb";;
esac
done
# The daemon is gone. It may come back; then it looks after its commands itself.
exec </dev/null >/dev/null
[[ $keep || ${#noted[@]} == 0 ]] && exit 0
nap @LINGER@
table 0
for a in "${!noted[@]}"; do
# Only while the command itself still runs: what it left in the background is not foreground.
[[ ${began[$a]-} == "${noted[$a]%% *}" ]] && end "$a" "${noted[$a]%% *}" "${noted[$a]#* }" 2000 &
done
wait
exit 0
