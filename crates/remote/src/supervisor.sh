# Keeps a job on one host: holds its folder, starts what it is ordered to, and leaves nothing behind.
# Orders come line by line on its input. When that ends, by whatever cause, the job does too.
# Before this stand: job, the job's id; dir, its folder here.
# Answers go among the job's own output, each on a line of its own that begins with the mark.

umask 077
# Who listened may be gone; what is left to do is done all the same.
trap '' PIPE

say() {
  printf '\n\001wirelane-%s %s\n' "$job" "$*"
}

# Signals every process of the job that may be signalled; whether there was any. Those that dropped their environment are
# known by their process group, those that left the group by their environment. One grep for all: a fork for each process of
# a large machine would take seconds.
signal() {
  found=no
  group=$(cat "$dir/group" 2>/dev/null) && kill -s "$1" -- "-$group" 2>/dev/null && found=yes
  for place in $(cd /proc && grep -slF -e "WIRELANE_JOB=$job" [0-9]*/environ); do
    kill -s "$1" "${place%/environ}" 2>/dev/null && found=yes
  done
  [ "$found" = yes ]
}

# First so that programs can end in order, then for good. New ones may begin meanwhile.
end_all() {
  signal TERM || return 0
  tries=0
  while [ "$tries" -lt 30 ]; do
    sleep 0.1
    signal 0 || return 0
    tries=$((tries + 1))
  done
  while [ "$tries" -lt 80 ] && signal KILL; do
    sleep 0.1
    tries=$((tries + 1))
  done
}

leave() {
  trap '' HUP INT TERM
  end_all
  rm -rf "$dir"
}

# Runs a file of the folder, and says how it ended.
run() {
  {
    (
      trap - PIPE
      WIRELANE_JOB=$job
      export WIRELANE_JOB
      # A session of its own makes it the first of a process group.
      exec setsid sh -c 'echo $$ >"$1/group"; exec sh "$1/$2"' sh "$dir" "$1"
    ) </dev/null
    say "exit $?"
  } &
}

# A machine that lost its power says no goodbye: after ten minutes without an order the supervisor ends. The watch is a process
# of the job like others, and so ends with it.
watch() {
  WIRELANE_JOB=$job sh -c 'while sleep 60; do [ -z "$(find "$1" -mmin +10)" ] || kill "$2"; done' \
    sh "$dir/alive" "$$" >/dev/null 2>&1 </dev/null &
}

mkdir -m 700 "$dir" || {
  say "refused $dir cannot be made"
  exit 3
}
trap leave EXIT
trap 'exit 3' HUP INT TERM
: >"$dir/alive"
watch
say ready

while IFS= read -r line; do
  # No word of an order has spaces.
  set -- $line
  case $1 in
    # Byte by byte: some programs read further than they are asked to, and what follows is not theirs.
    file) dd bs=1 count="$3" of="$dir/$2" 2>/dev/null ;;
    run) run "$2" ;;
    look)
      say looking
      look
      say seen
      ;;
    alive) : >"$dir/alive" ;;
    end) break ;;
  esac
done
exit 0
