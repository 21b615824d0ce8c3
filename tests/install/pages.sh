#!/usr/bin/env bash
# The manual pages, the completions and the links of the installed documentation.
#
#   tests/install/pages.sh PREFIX
set -euo pipefail
prefix=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "FAIL  pages: $*" >&2; exit 1; }
cd "$prefix/share/man"

# Pages that only lead to another one are not looked at: mandoc would have links for them.
mandoc -T lint -W warning $(grep -L '^\.so ' man*/*) || fail "mandoc finds mistakes"
# A page for every call that the headers declare, for every command, and nothing is empty.
for header in kolo.h:80 kolo_mpi.h:2; do
    least=${header#*:} header=${header%:*} calls=0
    for call in $(grep -oE '^[a-zA-Z].*\bkolo[A-Z][A-Za-z_]*\(' "$prefix/include/$header" |
        grep -v typedef | grep -oE 'kolo[A-Z][A-Za-z_]*\($' | tr -d '('); do
        grep -q "$call(" "man3/$call.3" || fail "$call has no page with its declaration"
        calls=$((calls + 1))
    done
    [ "$calls" -ge "$least" ] || fail "only $calls calls are found in $header"
done
# Nor does a procedure of Fortran lack one, which may be that of its call.
procedures=$prefix/share/doc/kolo/docs/fortran-procedures.md
for name in $(sed -n 's/^## `\(kolo_[a-z_0-9]*\)`$/\1/p' "$procedures"); do
    shown=$(mandoc -T ascii "man3/$name.3" | sed 's/.\x08//g')
    [[ $shown == *"$name("* ]] || fail "$name has no page with its forms"
done
commands=0 options=0
for command in $("$prefix/bin/kolo" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    page=man1/kolo-$command.1
    shown=$(mandoc -T ascii "$page" | sed 's/.\x08//g')
    # Options of the command stand in its page.
    for option in $("$prefix/bin/kolo" "$command" --help | grep -oE '^ +(-., )?--[a-z_-]+' |
        grep -oE -- '--[a-z_-]+'); do
        [[ $shown == *"$option"* ]] || fail "$option is not in $page"
        options=$((options + 1))
    done
    commands=$((commands + 1))
done
[ "$commands" -ge 8 ] && [ "$options" -ge 40 ] ||
    fail "only $options options of $commands commands are found"
for page in man3/kolo.h.3 man5/kolo.toml.5 man7/kolo.7; do
    [ "$(mandoc -T ascii "$page" | wc -l)" -gt 100 ] || fail "$page has hardly anything"
done

# Each shell reads its completions; bash and fish say what they would complete.
cd "$prefix/share"
said=$(bash --norc -c '
    source bash-completion/completions/kolo
    COMP_WORDS=(kolo per) COMP_CWORD=1
    _kolo kolo per kolo && echo "${COMPREPLY[*]}"
    COMP_WORDS=(kolo perf --dataty) COMP_CWORD=2
    _kolo kolo --dataty perf && echo "${COMPREPLY[*]}"
' | tr '\n' ' ')
[ "$said" = "perf --datatype " ] || fail "bash completes '$said'"
zsh -n zsh/site-functions/_kolo || fail "zsh does not read its completions"
fish --no-execute fish/vendor_completions.d/kolo.fish || fail "fish does not read its completions"
said=$(fish --no-config -c "source fish/vendor_completions.d/kolo.fish; complete -C 'kolo per'" |
    cut -f 1 | tr '\n' ' ')
[ "$said" = "perf " ] || fail "fish completes '$said'"

python3 "$here/links.py" "$prefix/share/doc/kolo"
echo "ok    manual pages, completions, links of the documentation"
